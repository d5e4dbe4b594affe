package freshness

import (
	"bytes"
	"errors"
)

// What shows that a history went back; the words are values of a metric's label.
const (
	// EvidenceRevision says that a read answered a revision below one that had been seen
	// before it was sent, or that a write made one which was not above that.
	EvidenceRevision = "revision"
	// EvidenceCluster says that a cluster of another id answered.
	EvidenceCluster = "cluster"
	// EvidenceTerm says that a member's raft term went down.
	EvidenceTerm = "term"
	// EvidenceWitness says that the sentinel's chain lacks the link that was its last.
	EvidenceWitness = "witness"
	// EvidenceMissing says that there is no sentinel where there was one.
	EvidenceMissing = "missing sentinel"
)

// Evidences are all of them.
func Evidences() []string {
	return []string{EvidenceRevision, EvidenceCluster, EvidenceTerm, EvidenceWitness, EvidenceMissing}
}

// errTermDown is the error of a first reading with a lower term. The second is believed.
var errTermDown = errors.New("the member's raft term is below one that it had; another read has to confirm it")

// known is what the readings of one history have shown, and later ones must agree with.
type known struct {
	cluster uint64            // 0: none yet
	terms   map[uint64]uint64 // the newest of each member
	lower   bool              // the newest reading's term was below its member's

	witness []byte // the newest; nil: none
	link    Link   // its last
}

// contradiction returns how a reading shows another history than the known one, or "".
// An error is a doubt that the next reading is to resolve. doubted says that the
// connection was lost since the reading before: then the witness has to prove that the
// history is the same, while else it has to prove the contrary.
func (k *known) contradiction(r Reading, doubted bool) (evidence string, err error) {
	if k.cluster != 0 && r.ClusterID != 0 && r.ClusterID != k.cluster {
		return EvidenceCluster, nil
	}
	if evidence := k.contradictsWitness(r, doubted); evidence != "" {
		return evidence, nil
	}
	// A header's term is that of the entry that the member applied last (etcd 3.4 to
	// 3.7). That goes up on one member, while another that got its state as a snapshot
	// shows an older term until the next entry, and one that has just started shows 0.
	// etcd stores the index of an entry and then its term: who reads in between sees the
	// term before, once.
	lower := r.RaftTerm != 0 && r.RaftTerm < k.terms[r.MemberID]
	confirmed := lower && k.lower
	k.lower = lower
	switch {
	case confirmed:
		return EvidenceTerm, nil
	case lower:
		return "", errTermDown
	}
	return "", nil
}

func (k *known) contradictsWitness(r Reading, doubted bool) string {
	if k.witness == nil || bytes.Equal(k.witness, r.Witness) {
		return ""
	}
	chain, err := ParseChain(r.Witness)
	switch {
	case errors.Is(err, ErrChainVersion):
		return "" // another version keeps it now: no witness to us
	case err != nil || r.Created:
		return EvidenceMissing
	case !chain.Has(k.link.Nonce) && (doubted || chain.Lost(k.link)):
		return EvidenceWitness
	}
	return ""
}

// learn takes in a reading that does not contradict.
func (k *known) learn(r Reading) {
	if r.ClusterID != 0 {
		k.cluster = r.ClusterID
	}
	if r.MemberID != 0 && r.RaftTerm != 0 {
		k.terms[r.MemberID] = r.RaftTerm
	}
	if bytes.Equal(k.witness, r.Witness) {
		return
	}
	k.witness = nil
	if chain, err := ParseChain(r.Witness); err == nil && len(chain) > 0 {
		k.witness, k.link = r.Witness, chain[len(chain)-1]
	}
}
