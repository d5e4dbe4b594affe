package progress

import "time"

// A healthy follower answered three times in a row without moving in 8 % of the reads
// under load, and moved within 260 ms. Both bounds together make such a reader patient and
// still find a standing stream within a second.
const (
	stuckReplies    = 3
	stuckTime       = 500 * time.Millisecond
	stuckRoundTrips = 20
)

// SilentTime is how long kicks go unanswered, while somebody waits for one, until
// StreamConfig.Silent is called. etcd is silent while it catches up for a watch, for some
// 100 ms at a time; and who has waited 3 s, as upstream does, is to be served by then.
const SilentTime = 2 * time.Second

// silentLocked says whether kicks have gone unanswered for long while somebody waited.
func (s *Stream) silentLocked() (target uint64, silent bool) {
	k := &s.kick
	if len(s.groups) == 0 || k.silentSince.IsZero() || time.Since(k.silentSince) < SilentTime {
		return 0, false
	}
	k.silentSince = time.Time{} // the next kick begins anew
	return s.groups[0].revision, true
}

// stuckLocked counts replies that do not move while somebody waits for more.
// Kicks without any reply are no sign: etcd is silent until a watch is synced.
func (s *Stream) stuckLocked(reply uint64) (target uint64, stuck bool) {
	k := &s.kick
	if len(s.groups) == 0 || reply >= s.groups[0].revision {
		k.unmoved = 0
		return 0, false
	}
	if k.unmoved == 0 || reply > k.lastReply {
		k.lastReply, k.unmoved, k.unmovedSince = reply, 0, time.Now()
	}
	k.unmoved++
	if k.unmoved < stuckReplies || time.Since(k.unmovedSince) < max(stuckTime, stuckRoundTrips*k.roundTrip) {
		return 0, false
	}
	k.unmoved = 0
	return s.groups[0].revision, true
}

// Below says whether an answer has come that is below what is waited for, and none since
// that is not.
func (s *Stream) Below() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kick.unmoved > 0
}
