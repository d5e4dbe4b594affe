package strategy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Verdict is what was seen of a property. The zero value is unsure, which counts as
// unsafe.
type Verdict string

const (
	// VerdictUnsure: it was not seen, or not often enough.
	VerdictUnsure Verdict = ""
	// VerdictYes: the backend was seen to have the property.
	VerdictYes Verdict = "yes"
	// VerdictNo: the backend was seen to lack it.
	VerdictNo Verdict = "no"
)

// String is "yes", "no" or "unsure".
func (v Verdict) String() string { return string(cmp.Or(v, "unsure")) }

// MarshalText is String, for JSON.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText is the reverse of MarshalText.
func (v *Verdict) UnmarshalText(text []byte) error {
	*v = Verdict(text)
	if *v == "unsure" {
		*v = VerdictUnsure
	}
	return nil
}

// Properties is what a backend was seen to do. See Choose.
type Properties struct {
	// LinearizableFloor: no floor was below a write that had been acknowledged before
	// the floor was asked for.
	LinearizableFloor Verdict `json:"linearizableFloor"`
	// OneRevisionSpace: writes to different prefixes move one counter.
	OneRevisionSpace Verdict `json:"oneRevisionSpace"`
	// ProgressAnswered: a reply comes to a progress request, on a watch that is synced.
	ProgressAnswered Verdict `json:"progressAnswered"`
	// ProgressOrdered: no reply at R came before an event at or below R.
	ProgressOrdered Verdict `json:"progressOrdered"`
	// ProgressReaches: replies reach the floor of an idle store without a write.
	ProgressReaches Verdict `json:"progressReaches"`
	// WritesMoveProgress: after a write elsewhere replies reach the floor.
	WritesMoveProgress Verdict `json:"writesMoveProgress"`
	// FiltersWork: a range with a least mod revision, and a count, are answered, and
	// from one snapshot.
	FiltersWork Verdict `json:"filtersWork"`

	// ProgressMonotonic: no reply was below one that had come before. Nothing is chosen by
	// it: a Feed drops those.
	ProgressMonotonic Verdict `json:"progressMonotonic"`
	// EveryEventDelivered: no watch lacked an event. Where one did, caches are not asked:
	// no decorator can make up for a lost event (kine#676). What was not seen is hoped for,
	// as it shows by chance.
	EveryEventDelivered Verdict `json:"everyEventDelivered"`
	// CreatedRevision: the confirmation of a watch carries a revision. Nothing is chosen
	// by it.
	CreatedRevision Verdict `json:"createdRevision"`
}

// Property is one of Properties, under the name that metrics have for it.
type Property struct {
	Name    string
	Verdict Verdict
}

// All lists the properties in the order of the fields.
func (p Properties) All() []Property {
	return []Property{
		{"linearizable_floor", p.LinearizableFloor},
		{"one_revision_space", p.OneRevisionSpace},
		{"progress_answered", p.ProgressAnswered},
		{"progress_ordered", p.ProgressOrdered},
		{"progress_reaches", p.ProgressReaches},
		{"writes_move_progress", p.WritesMoveProgress},
		{"filters_work", p.FiltersWork},
		{"progress_monotonic", p.ProgressMonotonic},
		{"every_event_delivered", p.EveryEventDelivered},
		{"created_revision", p.CreatedRevision},
	}
}

// Choose is the strategies that are sound on such a backend, the cheapest first, and why
// the first is. Of those that are possible: by default all but Write, which an
// operator has to ask for. Where no cache can be compared with a floor that is
// Direct, which needs neither. The error wraps ErrRefused, and says why no read of
// the backend can be verified.
func (p Properties) Choose(possible ...Name) (sound []Name, reason string, err error) {
	if err := p.Unfit(); err != nil {
		return nil, "", err
	}
	if len(possible) == 0 {
		possible = []Name{Request, Nudge, RangeProof, Direct}
	}
	caches := p.againstCaches()
	asked := p.ProgressAnswered == VerdictYes && p.ProgressOrdered == VerdictYes
	var reasons, against []string
	for _, s := range []struct {
		strategy Name
		sound    bool
		reason   string
		against  string
	}{
		{Request, asked && p.ProgressReaches == VerdictYes, "progress is answered, in order, and reaches the floor", p.againstProgress("progress_reaches", p.ProgressReaches)},
		{Nudge, asked && p.WritesMoveProgress == VerdictYes, "progress is answered, in order, and reaches the floor after a write", p.againstProgress("writes_move_progress", p.WritesMoveProgress)},
		{RangeProof, p.FiltersWork == VerdictYes, "a range tells that nothing was changed", "filters_work is " + p.FiltersWork.String()},
		{Write, true, "an operator asked for it", ""},
		{Direct, true, "quorum lists need nothing of a watch", ""},
	} {
		if caches != "" && s.strategy != Direct {
			s.sound, s.against = false, caches
		}
		switch {
		case !slices.Contains(possible, s.strategy):
		case s.sound:
			sound, reasons = append(sound, s.strategy), append(reasons, s.reason)
		case len(sound) == 0:
			against = append(against, fmt.Sprintf("not %s: %s", s.strategy, s.against))
		}
	}
	if len(sound) == 0 {
		return nil, "", fmt.Errorf("%w: no strategy is both sound and possible: %s", ErrRefused, strings.Join(against, "; "))
	}
	return sound, strings.Join(append([]string{reasons[0]}, against...), "; "), nil
}

// Unfit is why no read can be verified, whatever the strategy; nil: it can.
func (p Properties) Unfit() error {
	switch {
	case p.LinearizableFloor == VerdictNo:
		return fmt.Errorf("%w: its revision is read below writes that it has acknowledged", ErrRefused)
	case p.OneRevisionSpace == VerdictNo:
		return fmt.Errorf("%w: it has more than one counter of revisions: give each a Backend of its own", ErrRefused)
	}
	return nil
}

// againstCaches is why no cache can be compared with a floor; empty: it can.
func (p Properties) againstCaches() string {
	if p.EveryEventDelivered == VerdictNo {
		return "every_event_delivered is no"
	}
	for _, property := range []Property{{"linearizable_floor", p.LinearizableFloor}, {"one_revision_space", p.OneRevisionSpace}} {
		if property.Verdict != VerdictYes {
			return property.Name + " is " + property.Verdict.String()
		}
	}
	return ""
}

// againstProgress is why progress cannot be relied on, where another property is needed too.
func (p Properties) againstProgress(name string, other Verdict) string {
	for _, property := range []Property{{"progress_answered", p.ProgressAnswered}, {"progress_ordered", p.ProgressOrdered}} {
		if property.Verdict != VerdictYes {
			return property.Name + " is " + property.Verdict.String()
		}
	}
	return name + " is " + other.String()
}
