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
