package progress

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// Config bounds what the caches of one backend ask of it together.
type Config struct {
	// Rate is the number of kicks per second that all streams may send in the
	// long run; 0 means 1000. etcd answers one in about 0.1 ms of one core.
	Rate float64
	// Burst is how many may go out at once; 0 means 100.
	Burst int
}

// Coordinator shares one budget of kicks, a token bucket, among the streams of
// one backend. When it is used up the stream with the oldest waiter goes first,
// and none is held back longer than 100 ms.
type Coordinator struct {
	rate  float64
	burst float64

	mu     sync.Mutex
	tokens float64
	at     time.Time // when tokens was right
	queue  requestHeap
	timer  *time.Timer
}

// request is a stream that waits for the budget.
type request struct {
	stream   *Stream
	since    time.Time // arrival of its oldest waiter
	deadline time.Time // goes then, budget or not
}

// NewCoordinator returns a Coordinator. Values below zero are taken as zero.
func NewCoordinator(cfg Config) *Coordinator {
	if cfg.Rate <= 0 {
		cfg.Rate = 1000
	}
	if cfg.Burst <= 0 {
		cfg.Burst = 100
	}
	return &Coordinator{rate: cfg.Rate, burst: float64(cfg.Burst), tokens: float64(cfg.Burst), at: time.Now()}
}

// NewStream adds the watch of one cache. Its owner closes it. A StreamConfig
// with neither Kick nor Advance is a programming error and panics.
func (c *Coordinator) NewStream(cfg StreamConfig) *Stream {
	if cfg.Advance == nil {
		if cfg.Kick == nil {
			panic("progress: StreamConfig.Kick is required, or Advance")
		}
		cfg.Advance = func(ctx context.Context, _ uint64) error { return cfg.Kick(ctx) }
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = kickTimeout
	}
	s := &Stream{cfg: cfg, coordinator: c, byRev: map[uint64]*group{}, done: make(chan struct{})}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// admit takes a token for s, or queues it. Called with s.mu held, so nothing here
// may call back into a stream.
func (c *Coordinator) admit(s *Stream, since time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.refillLocked(now)
	if c.tokens >= 1 && len(c.queue) == 0 {
		c.tokens--
		return true
	}
	heap.Push(&c.queue, request{stream: s, since: since, deadline: now.Add(maxBackoff)})
	c.armLocked(now)
	return false
}

// refund gives back the token of a kick that was not sent.
func (c *Coordinator) refund() {
	c.mu.Lock()
	c.tokens = min(c.burst, c.tokens+1)
	c.mu.Unlock()
}

// forget takes a stream out of the queue that has no waiter any more. Called with
// s.mu held or s closed.
func (c *Coordinator) forget(s *Stream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, r := range c.queue {
		if r.stream == s {
			heap.Remove(&c.queue, i)
			break
		}
	}
	if len(c.queue) == 0 && c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}

func (c *Coordinator) refillLocked(now time.Time) {
	c.tokens = min(c.burst, c.tokens+c.rate*now.Sub(c.at).Seconds())
	c.at = now
}

// armLocked sets the timer for the next token or the next deadline.
func (c *Coordinator) armLocked(now time.Time) {
	if c.timer != nil || len(c.queue) == 0 {
		return
	}
	wait := time.Duration((1 - c.tokens) / c.rate * float64(time.Second))
	for _, r := range c.queue {
		wait = min(wait, r.deadline.Sub(now))
	}
	c.timer = time.AfterFunc(max(wait, time.Microsecond), c.release)
}

// release lets queued streams go: the oldest waiter first while there are tokens,
// and whoever was held back too long.
func (c *Coordinator) release() {
	c.mu.Lock()
	c.timer = nil
	now := time.Now()
	c.refillLocked(now)
	var released []*Stream
	for len(c.queue) > 0 && c.tokens >= 1 {
		c.tokens--
		released = append(released, heap.Pop(&c.queue).(request).stream)
	}
	for i := 0; i < len(c.queue); {
		if r := c.queue[i]; !r.deadline.After(now) {
			c.tokens = max(-c.burst, c.tokens-1) // a debt: the long run stays within Rate
			released = append(released, r.stream)
			heap.Remove(&c.queue, i)
			i = 0
			continue
		}
		i++
	}
	c.armLocked(now)
	c.mu.Unlock()
	for _, s := range released {
		s.admitted()
	}
}

// requestHeap orders requests by their oldest waiter.
type requestHeap []request

func (h requestHeap) Len() int           { return len(h) }
func (h requestHeap) Less(i, j int) bool { return h[i].since.Before(h[j].since) }
func (h requestHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *requestHeap) Push(x any)        { *h = append(*h, x.(request)) }
func (h *requestHeap) Pop() any {
	old := *h
	r := old[len(old)-1]
	old[len(old)-1] = request{} // its stream may be gone for good
	*h = old[:len(old)-1]
	return r
}
