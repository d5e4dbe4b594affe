package linear

import "slices"

// Check judges the run. It is called once, when all that was begun has ended or never
// will, all of the truth has been told, and no other method is called any more.
func (r *Run) Check() *Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.judgeHeldLocked(true)
	for _, w := range r.watches {
		w.judge(true)
	}

	report := &Report{Phases: make([]Phase, len(r.phases)), Faults: r.faults, Second: map[string]int{}}
	var writes []*op
	for _, c := range r.clients {
		report.Operations += len(c.ops)
		for _, o := range c.ops {
			if o.kind == write {
				writes = append(writes, o)
				continue
			}
			report.Phases[o.phase].Reads++
			if o.outcome == done {
				report.Phases[o.phase].Answered++
			}
		}
	}
	r.account(writes)
	for _, h := range r.wrong {
		r.explainLocked(h)
	}
	for _, e := range r.epochs {
		report.Revisions += len(e.truth.revisions)
		r.order(e)
	}
	for _, key := range r.cfg.SecondOpinion {
		report.Second[key] = r.askPorcupine(key)
	}
	for _, c := range r.clients {
		for _, o := range c.ops {
			if o.wrong && o.kind != write {
				report.Phases[o.phase].Wrong++
			}
		}
	}
	for _, w := range r.watches {
		if w.wrong {
			report.Phases[w.phase].Wrong++
		}
	}
	report.Phases = merge(r.phases, report.Phases)
	report.Violations, report.Counts = r.found.byTime(), r.found.counts
	return report
}

// merge adds up the phases that have the same name.
func merge(names []string, counted []Phase) (phases []Phase) {
	for i, name := range names {
		at := slices.IndexFunc(phases, func(p Phase) bool { return p.Name == name })
		if at < 0 {
			at = len(phases)
			phases = append(phases, Phase{Name: name})
		}
		phases[at].Reads += counted[i].Reads
		phases[at].Answered += counted[i].Answered
		phases[at].Wrong += counted[i].Wrong
	}
	return phases
}
