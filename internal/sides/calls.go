package sides

import (
	"context"
	"fmt"
	"math"
	"time"

	"k8s.io/apiserver/pkg/apis/example"
	"k8s.io/apiserver/pkg/storage"
)

// Call asks a side once.
type Call func(ctx context.Context) (Answer, error)

// Answer is what is checked of an answer.
type Answer struct {
	Items int
	// Revision is the one that the answer reflects: that of a list, and of a watch
	// the newest among its initial events.
	Revision uint64
}

// Everything asks for all objects: at resourceVersion "" for the newest, at "0" for
// any.
func Everything(resourceVersion string) storage.ListOptions {
	return storage.ListOptions{ResourceVersion: resourceVersion, Predicate: storage.Everything, Recursive: true}
}

// Versioner reads the revisions of answers.
var Versioner = storage.APIObjectVersioner{}

// List lists the pods of a namespace, or of all namespaces where that is empty.
func List(store storage.Interface, namespace, resourceVersion string) Call {
	opts := Everything(resourceVersion)
	return func(ctx context.Context) (Answer, error) {
		var list example.PodList
		if err := store.GetList(ctx, PodPrefix+namespace, opts, &list); err != nil {
			return Answer{}, err
		}
		revision, err := Versioner.ParseResourceVersion(list.ResourceVersion)
		return Answer{Items: len(list.Items), Revision: revision}, err
	}
}

// callTimeout is how long the API server lets a request run by default.
const callTimeout = time.Minute

var errCallTimeout = fmt.Errorf("sides: no answer within %v", callTimeout)

// callContext is the context of one call: each has its own, as each request has.
func callContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, callTimeout, errCallTimeout)
}

// Sample is one call and its answer.
type Sample struct {
	Took time.Duration
	Answer
	Err error
	// Acknowledged is the revision of a write that was acknowledged before the call,
	// and that a fresh answer reflects.
	Acknowledged uint64
}

// Stale: the answer is older than a write that was acknowledged before the call.
func (s Sample) Stale() bool { return s.Revision < s.Acknowledged }

// Ask makes one call.
func Ask(ctx context.Context, call Call, acknowledged uint64) Sample {
	ctx, cancel := callContext(ctx)
	defer cancel()
	start := time.Now()
	a, err := call(ctx)
	return Sample{Took: time.Since(start), Answer: a, Err: err, Acknowledged: acknowledged}
}

// Percentile is the smallest of sorted, which is not empty, that p percent are not
// above (nearest rank).
func Percentile(sorted []time.Duration, p float64) time.Duration {
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}
