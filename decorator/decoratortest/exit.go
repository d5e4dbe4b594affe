package decoratortest

import (
	"fmt"
)

// checkExit lets the cache answer from an older state, after the gate.
func checkExit(r *rig) {
	replayer, ok := r.Harness.(ListReplayer)
	if !ok {
		r.skip("that an answer below its floor never goes out", "ReplayList", ", such as that of ReplayCache")
	}
	for _, name := range []string{"LIST", "LIST at 0"} {
		c := named(name)
		before := r.create("exit", "exit"+fmt.Sprint(len(name)))
		r.mustShow(c, before, "")
		w, err := r.update(r.Writer(), before)
		if err != nil {
			r.t.Fatalf("through Writer: %v", err)
		}
		replayer.ReplayList()
		v, err := c.read(r.t.Context(), r, w)
		switch {
		case err == nil && w.missing(v) != "":
			r.broken("a "+name+" never answers below its floor, whatever the cache does", w.missing(v),
				"the resourceVersion of the cache's answer is not compared with the floor on the way out")
		case err != nil && retryable(err) != nil:
			r.broken("a "+name+" whose answer was below its floor fails with an error that says when to retry",
				err.Error(), retryable(err).Error())
		}
		r.mustShow(c, w, "after an answer of the cache from below the floor: ")
	}
}
