package decorator

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/storage"
)

// route is what is to be done before a read may reach the cache. See the table in
// section 5 of the design.
type route struct {
	kind routeKind
	// rewrite asks the inner storage for the floor, not older.
	rewrite bool
	// least is N of routeLeast.
	least uint64
	// ungated: the revision only has to exist, the cache need not have reached it.
	ungated bool
	// initial: a watch asks for the state as its first events.
	initial bool
}

type routeKind uint8

const (
	// routeInner: the call goes to the inner storage unchanged.
	routeInner routeKind = iota
	// routeFloor: gate on a floor read after the call.
	routeFloor
	// routeBounded: gate on a floor at most MaxStaleness old.
	routeBounded
	// routeLeast: the caller names the revision N > 0 that the answer must reach, or be of.
	routeLeast
)

func (k routeKind) String() string {
	switch k {
	case routeInner:
		return "inner"
	case routeFloor:
		return "floor"
	case routeBounded:
		return "bounded"
	default:
		return "least"
	}
}

// policy is the part of a Config that routes depend on.
type policy struct {
	zero       ZeroVersion
	cachedGets bool
}

// router turns options into routes. Versions are parsed as the inner storage
// parses them, so that no spelling slips past; what it cannot parse goes to it,
// and its error stands.
type router struct {
	policy
	prefix    string
	versioner storage.Versioner
}

func (r *router) list(opts *storage.ListOptions) route {
	version, err := r.versioner.ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return route{}
	}
	pred, match := &opts.Predicate, opts.ResourceVersionMatch
	token := pred.Continue != ""
	switch {
	case token && opts.Recursive:
		_, at, err := storage.DecodeContinue(pred.Continue, r.prefix)
		switch {
		case err != nil || version != 0:
			return route{} // an error
		case match != "":
			// Upstream ignores the token then, which must not be a way round the floor.
		case at < 0:
			return route{kind: routeFloor} // the newest data
		default:
			return route{kind: routeLeast, least: uint64(at)} // exactly at
		}
	case token && match == "":
		return route{} // a list of the raw storage
	}
	switch match {
	case "", metav1.ResourceVersionMatchNotOlderThan:
	case metav1.ResourceVersionMatchExact:
		if version == 0 {
			return route{} // an error, or a list of the raw storage
		}
	default:
		return route{}
	}
	switch {
	case opts.ResourceVersion == "":
		return route{kind: routeFloor, rewrite: !token} // a token forbids a version
	case version == 0:
		return r.zeroRoute(false)
	default:
		return route{kind: routeLeast, least: version}
	}
}

func (r *router) get(opts storage.GetOptions) route {
	version, err := r.versioner.ParseResourceVersion(opts.ResourceVersion)
	switch {
	case err != nil:
		return route{}
	case opts.ResourceVersion == "":
		if r.cachedGets {
			return route{kind: routeFloor, rewrite: true}
		}
		return route{}
	case version == 0:
		return r.zeroRoute(true)
	default:
		return route{kind: routeLeast, least: version}
	}
}

// watch routes a Watch. watchList is upstream's feature gate: without it
// SendInitialEvents is ignored.
func (r *router) watch(opts *storage.ListOptions, watchList bool) route {
	version, err := r.versioner.ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return route{}
	}
	asked := watchList && opts.SendInitialEvents != nil
	to := route{initial: asked && *opts.SendInitialEvents}
	switch {
	case opts.ResourceVersion == "":
		to.kind, to.rewrite, to.ungated = routeFloor, asked, asked && !to.initial
	case version == 0:
		to.kind = r.zeroRoute(false).kind
	default:
		to.kind, to.least, to.ungated = routeLeast, version, !to.initial
	}
	return to
}

func (r *router) zeroRoute(rewrite bool) route {
	switch r.zero {
	case ZeroAsIs:
		return route{}
	case ZeroBounded:
		return route{kind: routeBounded, rewrite: rewrite}
	default:
		return route{kind: routeFloor, rewrite: rewrite}
	}
}
