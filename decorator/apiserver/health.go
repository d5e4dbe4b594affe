package apiserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"k8s.io/apiserver/pkg/server/healthz"
)

// checkTimeout is the patience of the readiness check with backends that gave no floor before: half of what the API
// server's own check of etcd has, beside which it runs.
const checkTimeout = time.Second

// HealthCheck answers the readiness check "rvfloor", for /readyz: it fails while a backend is rewound, or refused, or was not
// looked at yet, or no floor can be read from it. As long as floors are read it costs nothing. It is not for /livez: a restart
// does not bring etcd back. A resource whose cache could not be filled again for a minute after a rewind is left out, as
// upstream's own start-up hook leaves it out: /debug/rvfloor and the resource's reads say why.
func (b *Backends) HealthCheck() healthz.HealthChecker {
	return healthz.NamedCheck("rvfloor", func(r *http.Request) error {
		ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
		defer cancel()
		var errs []error
		for _, t := range b.connected() {
			if err := t.backend.Check(ctx); err != nil {
				errs = append(errs, fmt.Errorf("backend %s: %w", t.name, err))
			}
		}
		return errors.Join(errs...)
	})
}

// connected are the transports that are in use, sorted by name.
func (b *Backends) connected() []*transport {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []*transport
	for _, t := range b.transports {
		if t.connected.Load() {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(x, y *transport) int { return cmp.Compare(x.name, y.name) })
	return all
}
