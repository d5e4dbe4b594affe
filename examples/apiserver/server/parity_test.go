package server_test

import (
	"fmt"
	"net/url"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rvfloor/rvfloor/examples/apiserver/server"
)

// TestAnswersAreThoseOfStock plays one script to a server with rvfloor and to
// one without, over HTTPS, and compares every answer field by field.
func TestAnswersAreThoseOfStock(t *testing.T) {
	ours := &transcript{t: t, to: start(t, server.Options{})}
	stock := &transcript{t: t, to: start(t, server.Options{Stock: true})}

	var wg sync.WaitGroup
	for _, tr := range []*transcript{ours, stock} {
		wg.Go(func() {
			writes(tr)
			reads(tr)
			selectors(tr)
			chunks(tr)
			watches(tr)
			status(tr)
			deletions(tr)
			otherFormats(tr)
		})
	}
	wg.Wait()

	got, want := ours.normalized(), stock.normalized()
	for i := range min(len(got), len(want)) {
		if diff := cmp.Diff(want[i], got[i]); diff != "" {
			t.Errorf("%s: - stock, + ours\n%s", want[i].Name, diff)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d answers, stock gave %d", len(got), len(want))
	}
	t.Logf("%d answers compared", len(want))
}

// expect fails when an answer is not what the script is about: two servers that
// are wrong in the same way would compare as equal.
func (tr *transcript) expect(code int, a answer, names ...string) {
	tr.t.Helper()
	step := tr.steps[len(tr.steps)-1]
	if a.Code != code {
		tr.t.Errorf("%s at %s: code %d, want %d: %v", step.Name, tr.to.URL, a.Code, code, a.Body)
	}
	if names != nil {
		if diff := cmp.Diff(names, a.names()); diff != "" {
			tr.t.Errorf("%s at %s: names, - want, + got\n%s", step.Name, tr.to.URL, diff)
		}
	}
}

func post(path, body string) request { return request{Method: "POST", Path: path, Body: body} }

func writes(tr *transcript) {
	tr.expect(201, tr.do("create a", post(widgets, object("Widget", "a", `{"tier":"web"}`, `{"color":"red","size":1}`))))
	tr.expect(201, tr.do("create b", post(widgets, object("Widget", "b", `{"tier":"db"}`, `{"color":"blue"}`))))
	tr.expect(201, tr.do("create c", post(widgets, object("Widget", "c", `{"tier":"web"}`, `{}`))))
	tr.expect(201, tr.do("create d elsewhere", post(api+"/namespaces/other/widgets", object("Widget", "d", "", `{"color":"red"}`))))
	tr.expect(201, tr.do("create a ticket", post(tickets, object("Ticket", "t", "", `{"holder":"me","ttlSeconds":3600}`))))
	tr.expect(409, tr.do("create a again", post(widgets, object("Widget", "a", "", `{}`))))
	tr.expect(422, tr.do("create with a negative size", post(widgets, object("Widget", "x", "", `{"size":-1}`))))
	tr.expect(422, tr.do("create with a bad name", post(widgets, object("Widget", "X/y", "", `{}`))))
	tr.expect(400, tr.do("create a ticket among widgets", post(widgets, object("Ticket", "x", "", `{}`))))
	tr.expect(400, tr.do("create from no JSON", post(widgets, "{")))
	tr.expect(422, tr.do("create a ticket that lives too long", post(tickets, object("Ticket", "x", "", `{"ttlSeconds":99999999}`))))
	tr.expect(201, tr.do("create dry", post(widgets+"?dryRun=All", object("Widget", "dry", "", `{}`))))
	tr.expect(404, tr.get("dry was not stored", widgets+"/dry"))
}

func reads(tr *transcript) {
	a := tr.get("get", widgets+"/a")
	tr.expect(200, a)
	now := tr.get("list a namespace", widgets)
	tr.expect(200, now, "a", "b", "c")
	tr.expect(200, tr.get("list all", api+"/widgets"), "a", "b", "c", "d")
	tr.expect(200, tr.get("list at 0", widgets+"?resourceVersion=0"), "a", "b", "c")
	tr.expect(200, tr.get("list at N", widgets+"?resourceVersion="+now.version()), "a", "b", "c")
	tr.expect(200, tr.get("list not older than N", widgets+"?resourceVersionMatch=NotOlderThan&resourceVersion="+now.version()), "a", "b", "c")
	tr.expect(200, tr.get("list exactly at the first write", widgets+"?resourceVersionMatch=Exact&resourceVersion="+a.version()), "a")
	tr.expect(200, tr.get("list at N with a limit", widgets+"?limit=1&resourceVersion="+a.version()), "a")
	tr.expect(200, tr.get("list an empty namespace", api+"/namespaces/none/widgets"))
	tr.expect(200, tr.get("get at 0", widgets+"/a?resourceVersion=0"))
	tr.expect(200, tr.get("get at N", widgets+"/a?resourceVersion="+a.version()))

	tr.expect(404, tr.get("get what is not there", widgets+"/none"))
	tr.expect(404, tr.get("get at 0 what is not there", widgets+"/none?resourceVersion=0"))
	tr.expect(404, tr.get("an unknown resource", api+"/namespaces/default/gadgets"))
	tr.expect(400, tr.get("list at a bad version", widgets+"?resourceVersion=abc"))
	tr.expect(400, tr.get("list at a negative version", widgets+"?resourceVersion=-1"))
	tr.expect(500, tr.get("get at a bad version", widgets+"/a?resourceVersion=abc"))
	tr.expect(422, tr.get("a match without a version", widgets+"?resourceVersionMatch=Exact"))
	tr.expect(422, tr.get("an unknown match", widgets+"?resourceVersionMatch=Newest&resourceVersion=1"))
	tr.expect(422, tr.get("exactly 0", widgets+"?resourceVersionMatch=Exact&resourceVersion=0"))
}

func selectors(tr *transcript) {
	for _, at := range []string{"", "&resourceVersion=0"} {
		tr.expect(200, tr.get("label"+at, widgets+"?labelSelector=tier%3Dweb"+at), "a", "c")
		tr.expect(200, tr.get("label set"+at, widgets+"?labelSelector="+url.QueryEscape("tier in (db,none)")+at), "b")
		tr.expect(200, tr.get("label and limit"+at, widgets+"?limit=1&labelSelector=tier%3Dweb"+at))
		tr.expect(200, tr.get("field name"+at, widgets+"?fieldSelector=metadata.name%3Db"+at), "b")
		tr.expect(200, tr.get("field namespace"+at, api+"/widgets?fieldSelector=metadata.namespace%21%3Ddefault"+at), "d")
		tr.expect(200, tr.get("both"+at, widgets+"?labelSelector=tier%3Dweb&fieldSelector=metadata.name%3Da"+at), "a")
		tr.expect(200, tr.get("nothing matches"+at, widgets+"?labelSelector=tier%3Dnone"+at))
		tr.expect(200, tr.get("field of the spec"+at, api+"/widgets?fieldSelector=spec.color%3Dred"+at), "a", "d")
		tr.expect(400, tr.get("an unknown field"+at, widgets+"?fieldSelector=spec.size%3D1"+at))
		tr.expect(400, tr.get("a bad label selector"+at, widgets+"?labelSelector=%3D%3D"+at))
	}
}

func chunks(tr *transcript) {
	page := tr.get("chunk 1", api+"/widgets?limit=1")
	tr.expect(200, page, "a")
	// A write between two chunks is not seen by the later ones.
	tr.do("create between chunks", post(widgets, object("Widget", "between", "", `{}`)))
	for i := 2; text(page.Body, "metadata", "continue") != "" && i < 10; i++ {
		page = tr.get(fmt.Sprintf("chunk %d", i), api+"/widgets?limit=1&continue="+url.QueryEscape(text(page.Body, "metadata", "continue")))
	}
	tr.expect(200, page, "d")
	page = tr.get("a first chunk with the new one", widgets+"?limit=2")
	tr.expect(200, page, "a", "b")
	token := url.QueryEscape(text(page.Body, "metadata", "continue"))
	tr.expect(200, tr.get("the rest at once", widgets+"?continue="+token), "between", "c")
	tr.expect(200, tr.get("a limit at 0 is ignored", widgets+"?limit=2&resourceVersion=0"), "a", "b", "between", "c")
	tr.expect(400, tr.get("a token with a version", widgets+"?limit=2&resourceVersion=1&continue="+token))
	tr.expect(400, tr.get("a broken token", widgets+"?limit=2&continue=abc"))
}

func watches(tr *transcript) {
	first := text(tr.get("where watches begin", widgets+"/a").Body, "metadata", "resourceVersion")
	tr.get("a consistent list, so that stock's cache is current", widgets)

	change := func(size int) func() {
		return func() {
			tr.expect(200, tr.do(fmt.Sprintf("change c while watched, %d", size), request{
				Method: "PATCH", Path: widgets + "/c", Type: "application/merge-patch+json",
				Body: fmt.Sprintf(`{"spec":{"size":%d}}`, size),
			}))
		}
	}
	tr.watch("watch at 0", widgets+"?watch=true&resourceVersion=0", 4, change(1), change(2))
	tr.saw("ADDED a", "ADDED b", "ADDED between", "ADDED c", "MODIFIED c", "MODIFIED c")
	tr.get("current again", widgets)
	tr.watch("watch, no version", widgets+"?watch=true", 4, change(3))
	tr.saw("ADDED a", "ADDED b", "ADDED between", "ADDED c", "MODIFIED c")
	tr.watch("watch from N", widgets+"?watch=true&resourceVersion="+first, 6, change(4))
	tr.saw("ADDED b", "ADDED c", "ADDED between", "MODIFIED c", "MODIFIED c", "MODIFIED c", "MODIFIED c")
	tr.get("current again", widgets)
	tr.watch("watch one label", api+"/widgets?watch=true&resourceVersion=0&labelSelector=tier%3Dweb", 2, change(5))
	tr.saw("ADDED a", "ADDED c", "MODIFIED c")
	tr.get("current again", widgets)
	tr.watch("watch one name", widgets+"?watch=true&resourceVersion=0&fieldSelector=metadata.name%3Dc", 1, change(6))
	tr.saw("ADDED c", "MODIFIED c")
	tr.get("current again", widgets)
	tr.watch("watch all namespaces", api+"/widgets?watch=true&resourceVersion=0", 5, change(7))
	tr.saw("ADDED a", "ADDED b", "ADDED between", "ADDED c", "ADDED d", "MODIFIED c")

	// The initial events end with a bookmark that says so.
	initial := "?watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
	tr.get("current again", widgets)
	all := []string{"ADDED a", "ADDED b", "ADDED between", "ADDED c", "BOOKMARK ", "MODIFIED c"}
	tr.watch("watch-list, no version", widgets+initial, 5, change(8))
	tr.saw(all...)
	tr.get("current again", widgets)
	tr.watch("watch-list at 0", widgets+initial+"&resourceVersion=0", 5, change(9))
	tr.saw(all...)
	tr.get("current again", widgets)
	tr.watch("watch-list not older than N", widgets+initial+"&resourceVersion="+first, 5, change(10))
	tr.saw(all...)
	tr.watch("watch-list of an empty namespace", api+"/namespaces/none/widgets"+initial, 1)
	tr.saw("BOOKMARK ")

	tr.watch("watch at a bad version", widgets+"?watch=true&resourceVersion=abc", 1)
	tr.watch("watch-list without a match", widgets+"?watch=true&sendInitialEvents=true", 1)
	tr.watch("watch with a match alone", widgets+"?watch=true&resourceVersionMatch=NotOlderThan", 1)
}

func status(tr *transcript) {
	body := `{"apiVersion":"demo.rvfloor.dev/v1","kind":"Widget","metadata":{"name":"a","labels":{"ignored":"here"}},
		"spec":{"color":"ignored"},"status":{"phase":"Ready","observedGeneration":1}}`
	put := func(path string) request { return request{Method: "PUT", Path: path, Body: body} }
	a := tr.do("update the status", put(widgets+"/a/status"))
	tr.expect(200, a)
	if text(a.Body, "spec", "color") != "red" || text(a.Body, "status", "phase") != "Ready" {
		tr.t.Errorf("a write to /status gave %v", a.Body)
	}
	tr.expect(200, tr.get("get the status", widgets+"/a/status"))
	tr.expect(200, tr.get("get after the status", widgets+"/a"))
	a = tr.do("update all but the status", put(widgets+"/a"))
	tr.expect(200, a)
	if text(a.Body, "spec", "color") != "ignored" || at(a.Body, "metadata", "generation") != 2.0 {
		tr.t.Errorf("a write to the widget gave %v", a.Body)
	}
	tr.expect(404, tr.do("the status of nothing", request{Method: "PUT", Path: widgets + "/none/status",
		Body: object("Widget", "none", "", `{}`)}))
	tr.expect(409, tr.do("update from an old version", request{Method: "PUT", Path: widgets + "/a",
		Body: `{"apiVersion":"demo.rvfloor.dev/v1","kind":"Widget","metadata":{"name":"a","resourceVersion":"1"}}`}))
	tr.expect(201, tr.do("apply", request{Method: "PATCH", Path: widgets + "/applied?fieldManager=test", Type: "application/apply-patch+yaml",
		Body: object("Widget", "applied", "", `{"color":"green"}`)}))
	tr.expect(200, tr.do("apply to the status", request{Method: "PATCH", Path: widgets + "/applied/status?fieldManager=test", Type: "application/apply-patch+yaml",
		Body: `{"apiVersion":"demo.rvfloor.dev/v1","kind":"Widget","metadata":{"name":"applied"},"status":{"phase":"Applied"}}`}))
}

func deletions(tr *transcript) {
	before := tr.get("before deletions", widgets)
	tr.expect(409, tr.do("delete somebody else", request{Method: "DELETE", Path: widgets + "/b",
		Body: `{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":"no-such-uid"}}`}))
	tr.expect(200, tr.do("delete", request{Method: "DELETE", Path: widgets + "/b"}))
	tr.expect(404, tr.do("delete again", request{Method: "DELETE", Path: widgets + "/b"}))
	tr.expect(404, tr.get("get after delete", widgets+"/b"))
	tr.expect(200, tr.get("list after delete", widgets), "a", "applied", "between", "c")
	tr.expect(200, tr.do("delete a collection", request{Method: "DELETE", Path: widgets + "?labelSelector=tier%3Dweb"}))
	tr.expect(200, tr.get("list after deletes", widgets), "a", "applied", "between")
	tr.expect(404, tr.get("get at 0 after delete", widgets+"/b?resourceVersion=0"))
	tr.expect(200, tr.get("list at 0 after deletes", widgets+"?resourceVersion=0"), "a", "applied", "between")
	tr.watch("watch the deletes", widgets+"?watch=true&resourceVersion="+before.version(), 2)
	tr.saw("DELETED b", "DELETED c")
	tr.expect(200, tr.get("the past is still there", widgets+"?resourceVersionMatch=Exact&resourceVersion="+before.version()),
		"a", "applied", "b", "between", "c")
}

func otherFormats(tr *transcript) {
	tr.expect(200, tr.do("a table", request{Method: "GET", Path: widgets, Accept: "application/json;as=Table;v=v1;g=meta.k8s.io"}))
	tr.expect(200, tr.do("metadata only", request{Method: "GET", Path: widgets, Accept: "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}))
	tr.expect(200, tr.get("a ticket", tickets+"/t"))
	tr.expect(200, tr.get("the resources", api))
}
