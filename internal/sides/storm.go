package sides

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Storm makes n calls at once while another resource is written. The time of a
// call is from the release of all to its answer, also where it first had to wait
// for a core: that is what a caller sees. begin is called right before the release
// and answers what tells the revision that a call beginning now must reflect.
func (l *Lab) Storm(ctx context.Context, n int, call Call, begin func(*Writer) (newest func() uint64, err error)) (samples []Sample, err error) {
	w, err := l.startWriter(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	samples = make([]Sample, n)
	var newest func() uint64
	var released time.Time
	release := make(chan struct{}) // closed when the two above are set
	var ready, done sync.WaitGroup
	ready.Add(n)
	for i := range samples {
		done.Go(func() {
			ctx, cancel := callContext(ctx)
			defer cancel()
			ready.Done()
			<-release
			if newest == nil {
				return // begin has failed
			}
			acknowledged := newest()
			a, err := call(ctx)
			samples[i] = Sample{Took: time.Since(released), Answer: a, Err: err, Acknowledged: acknowledged}
		})
	}
	ready.Wait()
	touchMemory()
	runtime.GC() // what is left of the side before is not this one's to collect
	if newest, err = begin(w); err != nil {
		newest = nil
	}
	released = time.Now()
	close(release) // also after an error, or the callers would stay
	done.Wait()
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return samples, nil
}

// touchMemory maps more memory than a storm needs, so that every side finds the same:
// else the side that needs most pays for the page faults (up to 6,000 a run, a tenth of
// its time), and the others run in what it has mapped.
func touchMemory() {
	const size, page = 192 << 20, 4 << 10
	memory := make([]byte, size)
	for i := 0; i < size; i += page {
		memory[i] = 1
	}
}

// Longest is the time until the last answer of a storm.
func Longest(samples []Sample) (total time.Duration) {
	for _, s := range samples {
		total = max(total, s.Took)
	}
	return total
}

const (
	// settleTimeout is far above the 3 s for which upstream's cache leaves a goroutine
	// behind for each consistent list.
	settleTimeout = time.Minute
	// settled is how many goroutines more than at the start are none of those: streams
	// and connections that were opened later.
	settled = 100
)

// Settle waits until the goroutines of earlier storms have ended, so that they
// wake up in nobody else's: until there are about as many as idle says. Nothing
// tells of their end but their number.
func Settle(ctx context.Context, idle int) error {
	err := wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, settleTimeout, true, func(context.Context) (bool, error) {
		return runtime.NumGoroutine() <= idle+settled, nil
	})
	if err != nil {
		return fmt.Errorf("sides: the goroutines of an earlier storm did not end: %w", err)
	}
	return nil
}
