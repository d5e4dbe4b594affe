package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rvfloor/rvfloor/internal/sides"
)

// scene is one thing that can be seen.
type scene struct {
	name  string
	title string
	// claim is what must be seen.
	claim string
	play  func(context.Context, *stage) (result, error)
}

func scenes(size sizes) []scene {
	return []scene{
		{
			name:  "elsewhere",
			title: fmt.Sprintf("A LIST right after a write to another resource, %d times", size.elsewhere),
			claim: "rvfloor answers in less than a fifth of stock's time, no verified answer is stale, and unverified ones are",
			play:  elsewhere,
		},
		{
			name:  "storm",
			title: fmt.Sprintf("%s LISTs at once while another resource is written", grouped(size.storm)),
			claim: "stock asks etcd at least once for each LIST, rvfloor less than once for fifty, and no answer is stale",
			play:  storm,
		},
		{
			name:  "lease",
			title: fmt.Sprintf("%d pods go with their lease, at one revision; a LIST after that, %d times", leasedPods, size.leases),
			claim: "stock lists pods that are gone, rvfloor none",
			play:  lease,
		},
		{
			name:  "future",
			title: "A LIST at a resourceVersion that does not exist yet",
			claim: "both fail with TooLargeResourceVersion, rvfloor in less than a fifth of stock's time",
			play:  future,
		},
		{
			name:  "deadline",
			title: fmt.Sprintf("A caller with a deadline of %s, while the cache hears nothing from etcd", span(callerDeadline)),
			claim: "both fail: stock at ten times the deadline or later, rvfloor with ErrNotFresh and in less than a fifth of that time",
			play:  deadline,
		},
	}
}

// result is what was seen of a scene.
type result struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Claim   string `json:"claim"`
	Seen    bool   `json:"seen"`
	Verdict string `json:"verdict"` // what was seen, in a few words
	Rows    []row  `json:"rows"`
}

// row is one side's part of a scene: the same figures as in the scene's other rows.
type row struct {
	Side    string  `json:"side"`
	Figures figures `json:"figures"`
	Error   string  `json:"error,omitempty"` // what the call failed with
}

// figure is one value: by its name in JSON, and as the page shows it.
type figure struct {
	name         string
	value        float64
	label, shown string
}

type figures []figure

// MarshalJSON writes an object of names and values.
func (fs figures) MarshalJSON() ([]byte, error) {
	values := map[string]float64{}
	for _, f := range fs {
		values[f.name] = f.value
	}
	return json.Marshal(values)
}

func took(name, label string, d time.Duration) figure {
	return figure{name: name + "_seconds", value: d.Seconds(), label: label, shown: span(d)}
}

func count[N int | int64](name, label string, n N) figure {
	return figure{name: name, value: float64(n), label: label, shown: grouped(n)}
}

// span writes a time with three digits or so.
func span(d time.Duration) string {
	switch ms := float64(d) / float64(time.Millisecond); {
	case ms >= 1000:
		return fmt.Sprintf("%.2f s", d.Seconds())
	case ms >= 100:
		return fmt.Sprintf("%.0f ms", ms)
	case ms >= 10:
		return fmt.Sprintf("%.1f ms", ms)
	default:
		return fmt.Sprintf("%.2f ms", ms)
	}
}

// grouped writes a number with a comma before each three digits.
func grouped[N int | int64](n N) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return grouped(n/1000) + fmt.Sprintf(",%03d", n%1000)
}

// times says how many times longer a time is than another.
func times(long, short time.Duration) string {
	ratio := float64(long) / float64(short)
	if ratio < 10 {
		return fmt.Sprintf("%.1f times", ratio)
	}
	return fmt.Sprintf("%s times", grouped(int(ratio+0.5)))
}

// checked is how many of the answers are stale. Any other fault is an error.
func checked(side string, samples []sides.Sample) (stale int, err error) {
	for _, s := range samples {
		switch {
		case s.Err != nil:
			return 0, fmt.Errorf("%s: %w", side, s.Err)
		case s.Items != sides.Pods:
			return 0, fmt.Errorf("%s: an answer of %d pods; there are %d", side, s.Items, sides.Pods)
		case s.Stale():
			stale++
		}
	}
	return stale, nil
}
