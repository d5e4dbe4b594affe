package probe

import (
	"context"

	"github.com/rvfloor/rvfloor/decorator/strategy"
)

// T is what Run needs of *testing.T, which it is meant for.
type T[S any] interface {
	Helper()
	Context() context.Context
	Run(name string, f func(S)) bool
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
	Skipf(format string, args ...any)
}

// Run is Observe as a test, with a subtest for each property: one that the backend lacks
// fails, with the calls that show it; one that could not be told fails too, unless it hangs
// on another that failed. It returns the report.
func Run[S T[S]](t S, cfg Config) Report {
	t.Helper()
	report, err := Observe(t.Context(), cfg)
	if err != nil {
		t.Fatalf("%v", err)
	}
	for _, f := range report.Findings {
		t.Run(f.Property, func(t S) {
			t.Helper()
			switch {
			case f.Verdict == strategy.VerdictYes:
				t.Logf("%s", f.Seen)
			case f.Verdict == strategy.VerdictNo:
				t.Errorf("%s: %s\nThis means: %s.\nTo reproduce: %s.", f.Seen, f.Example, f.Means, f.Reproduce)
			case !decides(f.Property, report.Properties):
				t.Skipf("%s", f.Seen)
			default:
				t.Errorf("could not be told: %s", f.Seen)
			}
		})
	}
	if report.Problem != "" {
		t.Errorf("the probe could not go to its end: %s", report.Problem)
	}
	return report
}
