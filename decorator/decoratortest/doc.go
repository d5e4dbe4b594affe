// Package decoratortest is what a decorated storage promises, as tests. Whoever
// wires a decorator.Store over a cache and a backend of their own runs them over
// the result:
//
//	raw := newRawStorage(t) // yours
//	h := &exampleHarness{HoldableWatch: decoratortest.NewHoldableWatch(raw), raw: raw}
//	...
//	res.Feed, err = backend.Feed(h.HoldableWatch, res)
//	cache, err := cacher.NewCacherFromConfig(cacher.Config{
//		Storage: res.Feed, ...
//	})
//	...
//	h.store, err = backend.Wrap(delegator, res)
//	return h
//
// A test calls Run with the function that does so:
//
//	decoratortest.Run(t, newExampleHarness)
//
// The example is all of it. Run needs the methods of Harness alone. Those of
// Transactor, ReadHolder, ListReplayer and OtherWriter let it see more: a test that
// needs one that is missing is skipped, and names it.
//
// The Store is to have the default policies of decorator.Config: other values of
// ZeroVersion and OnUnverified promise less, and Run would say so.
package decoratortest
