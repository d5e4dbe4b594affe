package decorator

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/storage"
)

const (
	exactly    = metav1.ResourceVersionMatchExact
	unknownRVM = metav1.ResourceVersionMatch("Newest")
)

// Tokens of upstream's: of a revision, and of "the newest" (after a 410).
var (
	tokenAt9    = token(9)
	tokenNewest = token(-1)
)

func token(revision int64) string {
	encoded, err := storage.EncodeContinue("/pods/ns/a\x00", "/pods/", revision)
	if err != nil {
		panic(err)
	}
	return encoded
}

func (o listOptions) options() storage.ListOptions {
	opts := everything(o.rv)
	opts.ResourceVersionMatch, opts.SendInitialEvents, opts.Recursive = o.match, o.initial, !o.single
	opts.Predicate.Limit, opts.Predicate.Continue = o.limit, o.token
	opts.Predicate.AllowWatchBookmarks = o.initial != nil
	return opts
}

// listOptions are the parts of storage.ListOptions on which a route depends.
type listOptions struct {
	rv      string
	match   metav1.ResourceVersionMatch
	limit   int64
	token   string
	initial *bool
	single  bool // not recursive
}

var (
	toInner = route{}
	start   = route{kind: routeFloor, rewrite: true, ungated: true}
	floor   = route{kind: routeFloor}
	floorRV = route{kind: routeFloor, rewrite: true}
	bounded = route{kind: routeBounded}
	gate9   = route{kind: routeLeast, least: 9}
	exists9 = route{kind: routeLeast, least: 9, ungated: true}
)

func zero(z ZeroVersion) *router {
	return &router{policy: policy{zero: z}, prefix: "/pods/", versioner: storage.APIObjectVersioner{}}
}

// TestRouteList has a row for each of section 5's table, and for each kind of
// garbage that must reach the inner storage, whose error stands.
func TestRouteList(t *testing.T) {
	for name, row := range map[string]struct {
		opts                    listOptions
		verified, bounded, asIs route
	}{
		"unset":                           {listOptions{}, floorRV, floorRV, floorRV},
		"unset, single":                   {listOptions{single: true}, floorRV, floorRV, floorRV},
		"unset, limit":                    {listOptions{limit: 5}, floorRV, floorRV, floorRV},
		"unset, not older":                {listOptions{match: notOlderThan}, floorRV, floorRV, floorRV},
		"unset, exact":                    {listOptions{match: exactly}, toInner, toInner, toInner},
		"unset, unknown match":            {listOptions{match: unknownRVM}, toInner, toInner, toInner},
		"unset, token of the newest":      {listOptions{token: tokenNewest}, floor, floor, floor},
		"zero, token of the newest":       {listOptions{rv: "0", token: tokenNewest}, floor, floor, floor},
		"unset, newest, with limit":       {listOptions{token: tokenNewest, limit: 5}, floor, floor, floor},
		"unset, newest, single":           {listOptions{token: tokenNewest, single: true}, toInner, toInner, toInner},
		"unset, token, not older":         {listOptions{token: tokenAt9, match: notOlderThan}, floor, floor, floor},
		"unset, token, not older, single": {listOptions{token: "garbage", match: notOlderThan, single: true}, floor, floor, floor},
		"zero, token, not older":          {listOptions{rv: "0", token: tokenAt9, match: notOlderThan}, floor, bounded, toInner},
		"9, token, not older, single":     {listOptions{rv: "9", token: "garbage", match: notOlderThan, single: true}, gate9, gate9, gate9},
		"9, token, not older":             {listOptions{rv: "9", token: tokenAt9, match: notOlderThan}, toInner, toInner, toInner},
		"unset, garbage, not older":       {listOptions{token: "garbage", match: notOlderThan}, toInner, toInner, toInner},
		"unset, token, exact":             {listOptions{token: tokenAt9, match: exactly}, toInner, toInner, toInner},
		"unset, token, unknown match":     {listOptions{token: tokenAt9, match: unknownRVM}, toInner, toInner, toInner},
		"unset, token of a revision":      {listOptions{token: tokenAt9}, gate9, gate9, gate9},
		"unset, token, with limit":        {listOptions{token: tokenAt9, limit: 5}, gate9, gate9, gate9},
		"unset, token, single":            {listOptions{token: tokenAt9, single: true}, toInner, toInner, toInner},
		"unset, token of no revision":     {listOptions{token: token(0)}, toInner, toInner, toInner},
		"9, token of a revision":          {listOptions{rv: "9", token: tokenAt9}, toInner, toInner, toInner},
		"9, token of the newest":          {listOptions{rv: "9", token: tokenNewest}, toInner, toInner, toInner},
		"token of garbage":                {listOptions{token: "garbage"}, toInner, toInner, toInner},
		"zero":                            {listOptions{rv: "0"}, floor, bounded, toInner},
		"zero, single":                    {listOptions{rv: "0", single: true}, floor, bounded, toInner},
		"zero, limit":                     {listOptions{rv: "0", limit: 5}, floor, bounded, toInner},
		"zero, not older":                 {listOptions{rv: "0", match: notOlderThan}, floor, bounded, toInner},
		"zero, exact":                     {listOptions{rv: "0", match: exactly}, toInner, toInner, toInner},
		"zero, spelled longer":            {listOptions{rv: "00"}, floor, bounded, toInner},
		"zero, token of a revision":       {listOptions{rv: "0", token: tokenAt9}, gate9, gate9, gate9},
		"9":                               {listOptions{rv: "9"}, gate9, gate9, gate9},
		"9, single":                       {listOptions{rv: "9", single: true}, gate9, gate9, gate9},
		"9, not older":                    {listOptions{rv: "9", match: notOlderThan}, gate9, gate9, gate9},
		"9, not older, limit":             {listOptions{rv: "9", match: notOlderThan, limit: 5}, gate9, gate9, gate9},
		"9, exact":                        {listOptions{rv: "9", match: exactly}, gate9, gate9, gate9},
		"9, limit, which means exact":     {listOptions{rv: "9", limit: 5}, gate9, gate9, gate9},
		"9, spelled longer":               {listOptions{rv: "0009"}, gate9, gate9, gate9},
		"9, unknown match":                {listOptions{rv: "9", match: unknownRVM}, toInner, toInner, toInner},
		"no number":                       {listOptions{rv: "nine"}, toInner, toInner, toInner},
		"negative":                        {listOptions{rv: "-9"}, toInner, toInner, toInner},
		"more than 64 bits":               {listOptions{rv: "18446744073709551616"}, toInner, toInner, toInner},
		"a space before":                  {listOptions{rv: " 9"}, toInner, toInner, toInner},
		"initial events are for a watch":  {listOptions{rv: "9", initial: new(true)}, gate9, gate9, gate9},
		"bookmarks too, without a number": {listOptions{initial: new(false)}, floorRV, floorRV, floorRV},
	} {
		t.Run(name, func(t *testing.T) {
			for z, want := range map[ZeroVersion]route{ZeroVerified: row.verified, ZeroBounded: row.bounded, ZeroAsIs: row.asIs} {
				if got := zero(z).list(new(row.opts.options())); got != want {
					t.Errorf("%s: got %+v, want %+v", z, got, want)
				}
			}
		})
	}
}

func TestRouteGet(t *testing.T) {
	for name, row := range map[string]struct {
		rv                              string
		verified, bounded, asIs, cached route
	}{
		"unset":     {"", toInner, toInner, toInner, floorRV},
		"zero":      {"0", floorRV, route{kind: routeBounded, rewrite: true}, toInner, floorRV},
		"9":         {"9", gate9, gate9, gate9, gate9},
		"no number": {"nine", toInner, toInner, toInner, toInner},
		"negative":  {"-9", toInner, toInner, toInner, toInner},
	} {
		t.Run(name, func(t *testing.T) {
			cached := zero(ZeroVerified)
			cached.cachedGets = true
			for policy, c := range map[string]struct {
				router *router
				want   route
			}{
				"Verified":   {zero(ZeroVerified), row.verified},
				"Bounded":    {zero(ZeroBounded), row.bounded},
				"AsIs":       {zero(ZeroAsIs), row.asIs},
				"CachedGets": {cached, row.cached},
			} {
				if got := c.router.get(storage.GetOptions{ResourceVersion: row.rv}); got != c.want {
					t.Errorf("%s: got %+v, want %+v", policy, got, c.want)
				}
			}
		})
	}
}

func TestRouteWatch(t *testing.T) {
	for name, row := range map[string]struct {
		opts                    listOptions
		verified, bounded, asIs route
		// ungated is the route where upstream's WatchList gate is off and initial is
		// not looked at.
		ungated route
	}{
		"unset":                    {listOptions{}, floor, floor, floor, floor},
		"unset, initial events":    {listOptions{initial: new(true)}, floorRV, floorRV, floorRV, floor},
		"unset, no initial events": {listOptions{initial: new(false)}, start, start, start, floor},
		"zero":                     {listOptions{rv: "0"}, floor, bounded, toInner, floor},
		"zero, initial events":     {listOptions{rv: "0", initial: new(true)}, floor, bounded, toInner, floor},
		"zero, no initial events":  {listOptions{rv: "0", initial: new(false)}, floor, bounded, toInner, floor},
		"9":                        {listOptions{rv: "9"}, exists9, exists9, exists9, exists9},
		"9, initial events":        {listOptions{rv: "9", initial: new(true)}, gate9, gate9, gate9, exists9},
		"9, no initial events":     {listOptions{rv: "9", initial: new(false)}, exists9, exists9, exists9, exists9},
		"no number":                {listOptions{rv: "nine"}, toInner, toInner, toInner, toInner},
	} {
		t.Run(name, func(t *testing.T) {
			for z, want := range map[ZeroVersion]route{ZeroVerified: row.verified, ZeroBounded: row.bounded, ZeroAsIs: row.asIs} {
				want.initial = row.opts.initial != nil && *row.opts.initial
				if got := zero(z).watch(new(row.opts.options()), true); got != want {
					t.Errorf("%s: got %+v, want %+v", z, got, want)
				}
			}
			if got := zero(ZeroVerified).watch(new(row.opts.options()), false); got != row.ungated {
				t.Errorf("without the gate: got %+v, want %+v", got, row.ungated)
			}
		})
	}
}
