package probe

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rvfloor/rvfloor/decorator/strategy"
)

// Names of strategy.Properties.
const (
	linearizableFloor   = "linearizable_floor"
	oneRevisionSpace    = "one_revision_space"
	progressAnswered    = "progress_answered"
	progressOrdered     = "progress_ordered"
	progressReaches     = "progress_reaches"
	writesMoveProgress  = "writes_move_progress"
	filtersWork         = "filters_work"
	progressMonotonic   = "progress_monotonic"
	everyEventDelivered = "every_event_delivered"
	createdRevision     = "created_revision"
)

// probe is one run.
type probe struct {
	*ground
	effort time.Duration

	floor, missing, space      tally
	answered, ordered, forward tally
	reaches, moves, confirmed  tally
	filters, delivered         tally
	followers                  int // who are to be judged: one that heard of nothing is no good sign
}

// Observe watches a backend and answers what it saw. What it could not see, for want of
// permission, connection or time, is unsure, and Report.Problem says why. The error is for
// a wrong Config, in which case nothing was sent.
func Observe(ctx context.Context, cfg Config) (Report, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return Report{}, err
	}
	began := time.Now()
	p := &probe{
		ground: &ground{clients: cfg.Clients, dir: fmt.Sprintf("%s%s/", cfg.Prefix, rand.Text()[:8]), keys: map[string]int64{}},
		effort: cfg.Effort,
	}
	report := Report{Prefix: p.dir}
	limited, cancel := context.WithTimeoutCause(ctx, cfg.Limit, fmt.Errorf("probe: not done after %v", cfg.Limit))
	report.Err = p.run(limited)
	cancel()
	if len(p.history) > 0 || p.unknown != nil {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
		report.Err = errors.Join(report.Err, p.cleanUp(late))
		cancel()
	}
	report.Writes = p.writes.Load()
	report.Findings = p.findings()
	report.conclude(began)
	return report, nil
}

// run makes the trials: first one call after the other, then many at once beside watches
// that have to catch up, at last on a store that is idle but for what others do.
func (p *probe) run(ctx context.Context) error {
	switch _, err := p.put(ctx, p.client(0), floorKey); err {
	case nil:
	case errNoRevision:
		p.floor.trial(false, "%v", err)
		return nil
	default:
		return err
	}
	if err := p.oneByOne(ctx); err != nil {
		return err
	}
	if err := p.answers(ctx); err != nil {
		return err
	}
	var beside sync.WaitGroup
	var catchUpErr error
	beside.Go(func() { catchUpErr = p.catchUp(ctx) })
	err := p.concurrently(ctx)
	beside.Wait()
	if err = errors.Join(err, catchUpErr); err != nil {
		return err
	}
	return p.idle(ctx)
}

// findings are the tallies as verdicts.
func (p *probe) findings() []Finding {
	answered := p.answered.finding(progressAnswered, 1, "%d of %d requests for progress without a reply")
	out := []Finding{
		p.zero.finding(HeaderRevision, 1, "%d of %d answers without a revision"),
		p.floor.finding(linearizableFloor, sequential, "%d of %d reads below a write that was acknowledged before"),
		p.missing.finding(MissingKeyFloor, sequential, "%d of %d reads that find nothing, below a write that was acknowledged before"),
		p.space.finding(oneRevisionSpace, sequential, "%d of %d writes not in one order with what was written and read under other prefixes"),
		answered,
		p.ordered.finding(progressOrdered, catchUps, "%d of %d watches were told of progress before an event below it"),
		p.forward.finding(progressMonotonic, 1, "%d of %d watches had progress that went back"),
		p.reaches.finding(progressReaches, idles, "%d of %d times replies stayed below the floor of a store without writes"),
		p.moves.finding(writesMoveProgress, idles, "%d of %d times replies stayed below the floor in spite of a write elsewhere"),
		p.filters.finding(filtersWork, minFiltered, "%d of %d ranges with a least mod revision and a count were refused, or differ from what was written"),
		p.delivered.finding(everyEventDelivered, max(minRounds, p.followers), "%d of %d clients that watch missed a write"),
		p.confirmed.finding(createdRevision, 1, "%d of %d watches were confirmed without a revision"),
	}
	if answered.Verdict == strategy.VerdictNo {
		for i := range out {
			switch out[i].Property {
			case progressOrdered, progressMonotonic, progressReaches, writesMoveProgress:
				out[i].Verdict, out[i].Missed, out[i].Seen = strategy.VerdictUnsure, 0, "no progress came"
			}
		}
	}
	return out
}
