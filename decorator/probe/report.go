package probe

import (
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/rvfloor/rvfloor/decorator/strategy"
)

// rareFault is the fault whose chance to be missed is told: one that shows in so many of
// the trials.
const rareFault = 0.05

// Properties that nothing is chosen by, beside those of strategy.Properties.
const (
	// HeaderRevision: what reads and writes answer carries a revision.
	HeaderRevision = "header_revision"
	// MissingKeyFloor: a read that finds nothing has a floor as good as one that finds
	// something. Where not, floors need a sentinel.
	MissingKeyFloor = "missing_key_floor"
)

// Finding is what was seen of one property.
type Finding struct {
	// Property is a name of strategy.Properties, as metrics have it, or one of this
	// package.
	Property string           `json:"property"`
	Verdict  strategy.Verdict `json:"verdict"`
	// Seen says it in numbers; Example is the first failure.
	Seen    string `json:"seen"`
	Example string `json:"example,omitempty"`
	// Trials and Failures count what can be counted.
	Trials   int `json:"trials"`
	Failures int `json:"failures"`
	// Missed is how likely these trials were to miss a fault that shows in 5 % of them; 0
	// where one was found, or nothing was decided.
	Missed float64 `json:"missed,omitempty"`
	// MedianMillis and LongestMillis are how long the backend took, where that was timed.
	MedianMillis  float64 `json:"medianMillis,omitempty"`
	LongestMillis float64 `json:"longestMillis,omitempty"`
	// Means is what the verdict means for verified reads.
	Means string `json:"means"`
	// Reproduce are the calls that show a fault.
	Reproduce string `json:"reproduce,omitempty"`
}

// Report is what a probe found.
type Report struct {
	// Prefix is the folder of this probe, now empty again, and Writes how many writes there
	// were.
	Prefix string `json:"prefix"`
	Writes int64  `json:"writes"`
	// TookMillis is the whole time.
	TookMillis float64 `json:"tookMillis"`
	// Findings are in the order in which they matter.
	Findings   []Finding           `json:"findings"`
	Properties strategy.Properties `json:"properties"`
	// Strategies are the sound ones, the cheapest first, and Reason says why; none, and the
	// reason is why reads cannot be verified.
	Strategies []strategy.Name `json:"strategies"`
	Reason     string          `json:"reason"`
	// Problem is why the probe could not go to its end; empty where it did. Err is the same
	// as an error.
	Problem string `json:"problem,omitempty"`
	Err     error  `json:"-"`
}

// Finding is the one of a property, and empty where there is none.
func (r Report) Finding(property string) Finding {
	for _, f := range r.Findings {
		if f.Property == property {
			return f
		}
	}
	return Finding{}
}

// Refused says that the backend does not let the probe write: another try is as futile
// until somebody grants it, or frees space.
func (r Report) Refused() bool {
	return errors.Is(r.Err, rpctypes.ErrPermissionDenied) || errors.Is(r.Err, rpctypes.ErrNoSpace)
}

// Safe tells whether verified reads of the backend are: VerdictYes, VerdictNo, or
// VerdictUnsure where what would have to be known is not.
func (r Report) Safe() strategy.Verdict {
	p := r.Properties
	for _, needed := range []strategy.Verdict{p.LinearizableFloor, p.OneRevisionSpace, p.EveryEventDelivered} {
		if needed == strategy.VerdictNo {
			return strategy.VerdictNo
		}
	}
	for _, f := range r.Findings {
		if f.Verdict == strategy.VerdictUnsure && decides(f.Property, p) {
			return strategy.VerdictUnsure
		}
	}
	return strategy.VerdictYes
}

// decides says whether a property that was not seen leaves open what is safe. Of progress
// nothing more is to be known where it is not answered, or not in order.
func decides(property string, p strategy.Properties) bool {
	switch property {
	case progressOrdered, progressReaches, progressMonotonic, writesMoveProgress:
		return p.ProgressAnswered != strategy.VerdictNo
	case createdRevision, MissingKeyFloor:
		return false
	}
	return true
}

// conclude fills in what follows from the findings.
func (r *Report) conclude(began time.Time) {
	for i := range r.Findings {
		f := &r.Findings[i]
		if field := fieldOf(f.Property, &r.Properties); field != nil {
			*field = f.Verdict
		}
		explain(f)
	}
	strategies, reason, err := r.Properties.Choose()
	r.Strategies, r.Reason = strategies, reason
	if err != nil {
		r.Reason = err.Error()
	}
	if r.Err != nil {
		r.Problem = r.Err.Error()
	}
	r.TookMillis = millis(time.Since(began))
}
