package probe

import (
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// TestOrderOnAWatch: progress is overtaking where an event at or below the highest report
// comes after it, also after one that went back.
func TestOrderOnAWatch(t *testing.T) {
	type response struct {
		progress, event int64 // one of them
		fragment        bool  // a part without events is no report
	}
	for name, test := range map[string]struct {
		responses                     []response
		replies, backwards, overtaken int
	}{
		"in order":             {[]response{{event: 4}, {progress: 5}, {event: 6}, {progress: 6}}, 2, 0, 0},
		"at the report":        {[]response{{progress: 5}, {event: 5}}, 1, 0, 1},
		"below it":             {[]response{{progress: 5}, {event: 4}, {event: 6}}, 1, 0, 1},
		"back, and then below": {[]response{{progress: 7}, {progress: 5}, {event: 6}}, 2, 1, 1},
		"in parts":             {[]response{{fragment: true, progress: 5}, {event: 5}}, 0, 0, 0},
	} {
		w := &watch{events: map[int64]bool{}}
		for _, r := range test.responses {
			resp := &pb.WatchResponse{Header: &pb.ResponseHeader{Revision: r.progress}, Fragment: r.fragment}
			if r.event > 0 {
				resp.Events = []*mvccpb.Event{{Kv: &mvccpb.KeyValue{ModRevision: r.event}}}
			}
			w.takeLocked(resp)
		}
		if w.replies != test.replies || w.backwards != test.backwards || w.overtaken != test.overtaken {
			t.Errorf("%s: %d replies, %d back, %d overtaken", name, w.replies, w.backwards, w.overtaken)
		}
	}
}

// TestCatchUp: events that never came are told from those that came after progress.
func TestCatchUp(t *testing.T) {
	history := []write{{key: "a/1", revision: 5}, {key: "a/2", revision: 7}, {key: "a/3", revision: 9}}
	w := &watch{events: map[int64]bool{5: true, 7: true}, newest: 7, through: 8}
	if missed := w.missing(history); missed != nil || w.passedOver(9) {
		t.Errorf("missed %v, %d overtaken of what may still come", missed, w.overtaken)
	}
	w.through = 9
	if !w.passedOver(9) || w.overtaken != 1 || w.example == "" {
		t.Errorf("progress at 9 without the event at 9: %d overtaken, %q", w.overtaken, w.example)
	}
	w = &watch{events: map[int64]bool{5: true, 9: true}, newest: 9, through: 9}
	if missed := w.missing(history); missed == nil || missed.revision != 7 || w.passedOver(9) {
		t.Errorf("got %v, want the write at 7", missed)
	}
	w.overtaken = 1
	if !w.passedOver(9) || w.overtaken != 1 {
		t.Error("an event that came after progress was forgotten")
	}
}
