package fdbshim

import (
	"cmp"
	"math"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// space is what has revisions in common: all of a database, as a rule. The lock of
// its Store guards it.
type space struct {
	records   []*record // by key
	log       []commit  // in the order of revisions
	last      int64     // the last commit
	issued    int64     // the highest revision that anybody was told
	compacted int64     // what was below it cannot be read; 0: all can be
	dropped   int64     // the last commit that is not in the log any more
}

// record is a key and what it was.
type record struct {
	key      string
	versions []*mvccpb.KeyValue // the last is the present one; one without a version is a deletion
}

// commit is what one transaction changed.
type commit struct {
	revision int64
	at       time.Time
	events   []*mvccpb.Event // with PrevKv
}

// at is the record's version at a revision; nil where there is none.
func (r *record) at(revision int64) *mvccpb.KeyValue {
	for _, kv := range slices.Backward(r.versions) {
		if kv.ModRevision <= revision {
			if kv.Version == 0 {
				return nil
			}
			return kv
		}
	}
	return nil
}

// present is the key's present version; nil where there is none.
func (sp *space) present(key string) *mvccpb.KeyValue {
	if i, ok := sp.find(key); ok {
		return sp.records[i].at(math.MaxInt64)
	}
	return nil
}

func (sp *space) find(key string) (int, bool) {
	return slices.BinarySearchFunc(sp.records, key, func(r *record, key string) int { return cmp.Compare(r.key, key) })
}

// add gives a key its next version.
func (sp *space) add(kv *mvccpb.KeyValue) {
	i, ok := sp.find(string(kv.Key))
	if !ok {
		sp.records = slices.Insert(sp.records, i, &record{key: string(kv.Key)})
	}
	sp.records[i].versions = append(sp.records[i].versions, kv)
}

// within are the records of the keys from key to end, as etcd means them: without
// an end the key alone, and to the last one where the end is a zero byte.
func (sp *space) within(key, end []byte) []*record {
	from, found := sp.find(string(key))
	switch {
	case len(end) == 0 && found:
		return sp.records[from : from+1]
	case len(end) == 0:
		return nil
	case string(end) == "\x00":
		return sp.records[from:]
	}
	to, _ := sp.find(string(end))
	return sp.records[from:max(from, to)]
}

// snapshot are the live keys from key to end at a revision.
func (sp *space) snapshot(key, end []byte, revision int64) (kvs []*mvccpb.KeyValue) {
	for _, r := range sp.within(key, end) {
		if kv := r.at(revision); kv != nil {
			kvs = append(kvs, kv)
		}
	}
	return kvs
}

// compact forgets what was before a revision.
func (sp *space) compact(revision int64) error {
	switch {
	case revision <= sp.compacted:
		return rpctypes.ErrGRPCCompacted
	case revision > sp.issued:
		return rpctypes.ErrGRPCFutureRev
	}
	sp.compacted = revision
	for len(sp.log) > 0 && sp.log[0].revision < revision {
		sp.dropped, sp.log = sp.log[0].revision, sp.log[1:]
	}
	for _, r := range sp.records {
		i := len(r.versions) - 1
		for i > 0 && r.versions[i].ModRevision > revision {
			i--
		}
		r.versions = slices.Delete(r.versions, 0, i)
	}
	sp.records = slices.DeleteFunc(sp.records, func(r *record) bool {
		return len(r.versions) == 1 && r.versions[0].Version == 0 && r.versions[0].ModRevision < revision
	})
	return nil
}

// lagging is the last commit that is at least so old, and the first revision of all
// where none is.
func (sp *space) lagging(lag time.Duration) int64 {
	old := time.Now().Add(-lag)
	for _, c := range slices.Backward(sp.log) {
		if !c.at.After(old) {
			return c.revision
		}
	}
	if len(sp.log) > 0 {
		return max(sp.log[0].revision-1, sp.compacted)
	}
	return sp.last
}

// since are the commits from one revision to another, both included.
func (sp *space) since(from, to int64) []commit {
	i, _ := slices.BinarySearchFunc(sp.log, from, func(c commit, from int64) int { return cmp.Compare(c.revision, from) })
	j, _ := slices.BinarySearchFunc(sp.log, to+1, func(c commit, to int64) int { return cmp.Compare(c.revision, to) })
	return sp.log[i:max(i, j)]
}
