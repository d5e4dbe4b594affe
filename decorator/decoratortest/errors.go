package decoratortest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/storage"
)

// isTooLarge looks where client-go's reflector does: at the cause and at the text.
func isTooLarge(err error) bool {
	return err != nil && (storage.IsTooLargeResourceVersion(err) || strings.Contains(err.Error(), "Too large resource version"))
}

// checkErrors reads what cannot become fresh, because the watch of the cache is
// held.
func checkErrors(r *rig) {
	before := r.create("errors", "errors-object")
	r.mustShow(named("LIST"), before, "")
	r.HoldWatch()
	w, err := r.update(r.Writer(), before)
	if err != nil {
		r.t.Fatalf("through Writer: %v", err)
	}
	canceled, cancel := context.WithTimeout(r.t.Context(), longest)
	defer cancel()
	short, stop := context.WithTimeout(r.t.Context(), brief)
	defer stop()
	var leaving, failing []<-chan answer
	for _, c := range r.newest() {
		leaving = append(leaving, r.ask(canceled, c, w))
		failing = append(failing, r.ask(short, c, w))
	}
	failed := make([]answer, len(failing))
	for i := range failing {
		failed[i] = <-failing[i]
	}
	// By now those that are to leave are where they wait.
	left := r.clock.Now()
	cancel()
	for i, c := range r.newest() {
		r.t.Run(c.name, func(t *testing.T) {
			r := r.in(t)
			r.judgeFailure(c, failed[i].err)
			const promised = " whose caller cancels it returns at once"
			a := <-leaving[i]
			if a.err != nil && !errors.Is(a.err, context.Canceled) && !inconclusive(a.err) && retryable(a.err) != nil {
				r.broken("a "+c.name+promised+", with the context's error", a.err.Error(), "an error that does not come from the Store's own wait")
			}
			if late := a.ended - left; late > atOnce {
				r.broken("a "+c.name+promised, fmt.Sprintf("it took %v more", late), "the wait does not heed the caller's context")
			}
		})
	}
}

// judgeFailure looks at the error of a read that was not answered by its deadline.
func (r *rig) judgeFailure(c call, err error) {
	if err == nil || inconclusive(err) {
		return // it was answered, from past the cache
	}
	if why := retryable(err); why != nil {
		r.broken("a "+c.name+" that cannot be answered freshly in time fails with an API status that has a Retry-After and is no TooLargeResourceVersion",
			err.Error(), why.Error())
	}
}
