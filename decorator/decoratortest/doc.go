// Package decoratortest is what a decorated storage promises, as tests. Whoever
// wires a decorator.Store over a cache and a backend of their own runs them over
// the result:
//
//	func TestFreshness(t *testing.T) {
//		decoratortest.Run(t, func(t *testing.T) decoratortest.Harness {
//			watched := decoratortest.NewHoldableWatch(raw)
//			res.Feed, _ = backend.Feed(watched, res)
//			cache, _ := cacher.NewCacherFromConfig(cacher.Config{Storage: res.Feed, ...})
//			store, _ := backend.Wrap(cacher.NewCacheDelegator(cache, raw), res)
//			return &harness{HoldableWatch: watched, store: store, writer: raw}
//		})
//	}
//
// The example is all of it. Run needs the methods of Harness alone. Those of
// Transactor, ReadHolder, ListReplayer and OtherWriter let it see more: a test that
// needs one that is missing is skipped, and names it.
//
// The Store is to have the default policies of decorator.Config: other values of
// ZeroVersion and OnUnverified promise less, and Run would say so.
package decoratortest
