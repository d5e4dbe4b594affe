package probe

import "github.com/rvfloor/rvfloor/decorator/strategy"

// word is what the verdicts of a property mean, and how a fault of it is shown.
type word struct {
	field          func(*strategy.Properties) *strategy.Verdict // nil: nothing is chosen by it
	yes, no, doubt string
	reproduce      string
}

var words = map[string]word{
	HeaderRevision: {
		yes:       "floors can be read",
		no:        "there is no floor: no read can be verified",
		doubt:     "nothing is known of the backend",
		reproduce: "Txn(if mod_revision(k)=0 then put k) and Range(k): header.revision is 0",
	},
	linearizableFloor: {
		field:     func(p *strategy.Properties) *strategy.Verdict { return &p.LinearizableFloor },
		yes:       "a read that waits for a floor misses no write",
		no:        "verified reads are refused: a floor can be older than what others were told is written",
		doubt:     "only strategy direct is right until it is known",
		reproduce: "A: Txn(put k) answers revision R; then B: Range(an existing key) answers header.revision < R, or an older k",
	},
	MissingKeyFloor: {
		yes:       "floors may be read at a key that does not exist, too",
		no:        "floors need a sentinel: keep --verified-reads-sentinel-key",
		doubt:     "keep the sentinel",
		reproduce: "A: Txn(put k) answers revision R; then B: Range(a missing key) answers header.revision < R",
	},
	oneRevisionSpace: {
		field:     func(p *strategy.Properties) *strategy.Verdict { return &p.OneRevisionSpace },
		yes:       "one floor serves all resources",
		no:        "one floor cannot serve all resources: give each resource a decorator.Backend of its own",
		doubt:     "only strategy direct is right until it is known",
		reproduce: "Txn(put a/x) and Txn(put b/x) in turn: the revisions do not rise, or are not above what Range answered before",
	},
	progressAnswered: {
		field:     func(p *strategy.Properties) *strategy.Verdict { return &p.ProgressAnswered },
		yes:       "a watch cache can learn what it has",
		no:        "watch caches cannot learn what they have: strategies request and nudge are out",
		doubt:     "strategies request and nudge are out",
		reproduce: "Watch(create prefix, progress_notify), wait for created, then progress_request: no response with watch_id -1",
	},
	progressOrdered: {
		field:     func(p *strategy.Properties) *strategy.Verdict { return &p.ProgressOrdered },
		yes:       "progress proves that no event is missing below it",
		no:        "progress proves nothing: strategies request and nudge are out",
		doubt:     "strategies request and nudge are out",
		reproduce: "Watch(create prefix, start_revision of some writes ago) on a stream of its own, progress_request at once: a response with watch_id -1 and revision R, then an event at or below R",
	},
	progressMonotonic: {
		field:     func(p *strategy.Properties) *strategy.Verdict { return &p.ProgressMonotonic },
		yes:       "no report is dropped",
		no:        "reports that go back are dropped, at no harm",
		doubt:     "reports that go back are dropped, at no harm",
		reproduce: "Watch(create prefix, progress_notify), progress_request again and again beside writers: header.revision goes down",
	},
	progressReaches: {
		field:     func(p *strategy.Properties) *strategy.Verdict { return &p.ProgressReaches },
		yes:       "a quiet resource is fresh after one request",
		no:        "progress stands still until something is written: strategy request is out",
		doubt:     "strategy request is out",
		reproduce: "Range(k) answers header.revision F; no writes; Watch progress_request, again and again: every reply is below F",
	},
	writesMoveProgress: {
		field:     func(p *strategy.Properties) *strategy.Verdict { return &p.WritesMoveProgress },
		yes:       "a write of the sentinel makes a quiet resource fresh",
		no:        "writes do not help where progress stands still: strategy nudge is out",
		doubt:     "strategy nudge is out",
		reproduce: "Range(k) answers header.revision F; Txn(put outside the watched prefix); Watch progress_request, again and again: every reply is below F",
	},
	filtersWork: {
		field:     func(p *strategy.Properties) *strategy.Verdict { return &p.FiltersWork },
		yes:       "a range can prove that nothing changed",
		no:        "a range proves nothing: strategy range-proof is out",
		doubt:     "strategy range-proof is out",
		reproduce: "Range(prefix, min_mod_revision, limit 1, keys_only) beside writers: Unimplemented, or keys and count that are not those at header.revision",
	},
	everyEventDelivered: {
		field:     func(p *strategy.Properties) *strategy.Verdict { return &p.EveryEventDelivered },
		yes:       "watch caches hold what the backend holds",
		no:        "watch caches miss writes for good, with rvfloor or without: only strategy direct is right. Its lists hold every acknowledged write; one that was in flight can be missing, and a client that watches from there may never hear of it",
		doubt:     "that watch caches miss no writes is not known",
		reproduce: "16 writers; meanwhile Range(prefix) answers header.revision H, Watch(create prefix, start_revision H+1): a write above H has no event, or one at or below H is not in the list (as kine#676)",
	},
	createdRevision: {
		field:     func(p *strategy.Properties) *strategy.Verdict { return &p.CreatedRevision },
		yes:       "nothing is chosen by it",
		no:        "nothing is chosen by it",
		doubt:     "nothing is chosen by it",
		reproduce: "Watch(create prefix): the response with created carries header.revision 0",
	},
}

func fieldOf(property string, p *strategy.Properties) *strategy.Verdict {
	if field := words[property].field; field != nil {
		return field(p)
	}
	return nil
}

func explain(f *Finding) {
	w := words[f.Property]
	switch f.Verdict {
	case strategy.VerdictYes:
		f.Means = w.yes
	case strategy.VerdictNo:
		f.Means, f.Reproduce = w.no, w.reproduce
	default:
		f.Means = w.doubt
	}
}
