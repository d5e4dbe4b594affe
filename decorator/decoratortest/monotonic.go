package decoratortest

import "fmt"

// checkMonotonic reads in many ways, one after the other, beside a writer. Each
// answer is at least as new as all before it.
func checkMonotonic(r *rig) {
	const rounds = 30
	hot := r.create("monotonic", "monotonic-hot")
	r.mustShow(named("LIST"), hot, "")
	// GET first: it may be answered by the backend itself, which is ahead of the cache.
	calls := []call{named("GET"), named("LIST at 0"), named("GET at 0"), named("LIST"), named("LIST of a namespace"), named("LIST in pages"), named("LIST by label")}
	newestObject, newestList := hot.revision, uint64(0)
	for range rounds {
		for _, c := range calls {
			written := make(chan error, 1)
			go func() {
				_, err := r.update(r.Writer(), hot)
				written <- err
			}()
			v := r.eventually(c, hot)
			if err := <-written; err != nil {
				r.t.Fatalf("through Writer: %v", err)
			}
			object := v.objects[hot.name]
			if object < newestObject || v.revision != 0 && v.revision < max(newestList, newestObject) {
				r.broken("a "+c.name+" that begins after another read has returned is not older",
					fmt.Sprintf("the object at %d in an answer at %d, after the object at %d and an answer at %d", object, v.revision, newestObject, newestList),
					"the cache was asked before it had reached a revision read after the call began")
				return
			}
			newestObject, newestList = object, max(newestList, v.revision)
		}
	}
}
