package freshness

import (
	"errors"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// ErrReadOnly is in the error of a write that the backend refuses for as long as
// an operator does nothing: the client's role lacks readwrite on the sentinel's
// key, or etcd is out of space.
var ErrReadOnly = errors.New("the sentinel cannot be written (the etcd role needs readwrite on the key, and etcd free space)")

// retryWrites is how long a refused write is not tried again. Each try costs a
// read of a missing key a second round trip; and the operator who has granted
// the right waits this long for the witness to begin.
const retryWrites = time.Minute

// permission remembers whether writes are let through.
type permission struct {
	mu      sync.Mutex
	tried   bool
	refusal error
	retryAt time.Time
}

// isRefusal tells the errors that another try will not cure. Of any other error
// nothing is concluded: it may have been the moment.
func isRefusal(err error) bool {
	return errors.Is(err, rpctypes.ErrPermissionDenied) || errors.Is(err, rpctypes.ErrNoSpace)
}

// refused returns the refusal that still counts, or nil if a write may be tried.
func (p *permission) refused() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refusal != nil && time.Now().Before(p.retryAt) {
		return p.refusal
	}
	return nil
}

// note takes in how a write went.
func (p *permission) note(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case isRefusal(err):
		p.tried, p.refusal, p.retryAt = true, err, time.Now().Add(retryWrites)
	case err == nil:
		p.tried, p.refusal = true, nil
	}
}

// state is what Writable tells.
func (p *permission) state() (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tried && p.refusal == nil, p.refusal
}
