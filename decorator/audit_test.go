package decorator

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
)

// TestAudit: the event of a request tells what its first verified read came to, and
// what it was not to be below.
func TestAudit(t *testing.T) {
	type annotations = map[string]string
	held := func(r *rig) { r.cached.Hold(); r.memory.Bump() }
	noFloor := func(r *rig) { r.failFloors(errors.New("no quorum")) }
	for name, row := range map[string]struct {
		cfg   Config
		fault func(*rig)
		read  func(context.Context, *rig)
		want  func(r *rig) annotations
	}{
		"fresh": {want: func(r *rig) annotations {
			return annotations{AuditOutcome: "ok", AuditFloor: formatRevision(r.memory.Revision())}
		}},
		"at least": {
			read: func(ctx context.Context, r *rig) { _, _ = list(ctx, r.store, everything("1")) },
			want: func(*rig) annotations { return annotations{AuditOutcome: "ok", AuditFloor: "1"} },
		},
		"not fresh": {fault: held, want: func(r *rig) annotations {
			return annotations{AuditOutcome: "not_fresh", AuditFloor: formatRevision(r.memory.Revision())}
		}},
		"stale": {cfg: Config{OnUnverified: UnverifiedStale}, fault: held, want: func(r *rig) annotations {
			return annotations{AuditOutcome: "stale", AuditFloor: formatRevision(r.memory.Revision())}
		}},
		"no floor": {fault: noFloor, want: func(*rig) annotations {
			return annotations{AuditOutcome: "no_floor"}
		}},
		"not verified": {
			read: func(ctx context.Context, r *rig) { _, _ = readA(ctx, "get", r.store, "") },
			want: func(*rig) annotations { return nil },
		},
		"shadow": {
			cfg:  Config{Shadow: true},
			read: func(ctx context.Context, r *rig) { _, _ = list(ctx, r.store, everything("")); time.Sleep(cacherTimers) },
			want: func(*rig) annotations { return nil },
		},
		"first of two": {
			read: func(ctx context.Context, r *rig) {
				_, _ = list(ctx, r.store, everything("1"))
				_, _ = list(ctx, r.store, everything(""))
			},
			want: func(*rig) annotations { return annotations{AuditOutcome: "ok", AuditFloor: "1"} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, setup{cfg: row.cfg}, func(t *testing.T, r *rig) {
				r.put("a")
				settled()
				if row.fault != nil {
					row.fault(r)
				}
				if row.read == nil {
					row.read = func(ctx context.Context, r *rig) { _, _ = list(ctx, r.store, everything("")) }
				}
				ctx := audited(t, auditinternal.LevelMetadata)
				row.read(ctx, r)
				if got, want := audit.AuditContextFrom(ctx).GetEventAnnotations(), row.want(r); len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
					t.Errorf("got %v, want %v", got, want)
				}
			})
		})
	}
}

// TestNotAudited: a request that is not audited has no annotations, and they cost
// nothing.
func TestNotAudited(t *testing.T) {
	for name, ctx := range map[string]context.Context{
		"no audit":   t.Context(),
		"level None": audited(t, auditinternal.LevelNone),
	} {
		r := &read{ctx: ctx, target: 7}
		if n := testing.AllocsPerRun(100, func() { r.annotate(outcomeOK) }); n != 0 {
			t.Errorf("%s: %v allocations, want none", name, n)
		}
		if event := audit.AuditContextFrom(ctx); event != nil && len(event.GetEventAnnotations()) != 0 {
			t.Errorf("%s: annotated %v", name, event.GetEventAnnotations())
		}
	}
}

// audited is the context of a request whose audit policy is level.
func audited(t *testing.T, level auditinternal.Level) context.Context {
	t.Helper()
	ctx := audit.WithAuditContext(t.Context())
	if err := audit.AuditContextFrom(ctx).Init(audit.RequestAuditConfig{Level: level}, nil); err != nil {
		t.Fatal(err)
	}
	return ctx
}
