package apiserver

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"k8s.io/klog/v2"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/decorator/probe"
)

// DebugPath is where Options.ApplyTo serves DebugHandler. It is a non-resource URL: grant "get" to who may look, and "post"
// (or "put") to who may switch.
const DebugPath = "/debug/rvfloor"

// debugStatus is the JSON of the debug page.
type debugStatus struct {
	Mode decorator.Mode `json:"mode"`
	// Note says why there is nothing to see.
	Note            string          `json:"note,omitempty"`
	ModeFile        *modeFileStatus `json:"modeFile,omitempty"`
	Resources       []string        `json:"resources,omitempty"`       // that are verified; none: all but the next
	ExceptResources []string        `json:"exceptResources,omitempty"` // that are not
	Backends        []backendStatus `json:"backends"`                  // sorted by name
}

type backendStatus struct {
	decorator.Status
	SentinelKey string `json:"sentinelKey"` // empty: none is written
	EtcdClients int    `json:"etcdClients"` // beside the floors'
	// Probe is the newest; nil: none was made, or it is not done.
	Probe *probe.Report `json:"probe,omitempty"`
}

// DebugHandler answers a page for people, or its JSON to who accepts application/json and not text/html. It is also the
// switch for a running server:
//
//	POST {"mode":"off"}, or "shadow", or "verify"
//
// with Content-Type application/json, which a page of another site cannot send unasked; nor can it PUT, which needs no
// Content-Type, as kubectl replace --raw sends none. Who may do either is for the caller to decide.
func (b *Backends) DebugHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodGet, http.MethodHead:
			b.show(w, r)
		case http.MethodPost, http.MethodPut:
			b.switchMode(w, r)
		default:
			w.Header().Set("Allow", "GET, HEAD, POST, PUT")
			http.Error(w, "use GET to look, or POST to switch", http.StatusMethodNotAllowed)
		}
	})
}

// contentSecurityPolicy lets the page have its own style and nothing else.
const contentSecurityPolicy = "default-src 'none'; style-src 'unsafe-inline'"

func (b *Backends) show(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept")
	h.Set("X-Content-Type-Options", "nosniff")
	if accept := strings.Join(r.Header.Values("Accept"), ","); strings.Contains(accept, "application/json") && !strings.Contains(accept, "text/html") {
		writeJSON(w, b.status())
		return
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", contentSecurityPolicy)
	if err := writePage(w, b.status(), r.URL.Query().Has("live")); err != nil {
		klog.FromContext(r.Context()).V(4).Info("The debug page was not sent to its end", "err", err)
	}
}

func (b *Backends) switchMode(w http.ResponseWriter, r *http.Request) {
	const use = `use Content-Type: application/json and a body such as {"mode":"verify"}, {"mode":"shadow"} or {"mode":"off"}`
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); r.Method == http.MethodPost && (err != nil || kind != "application/json") {
		http.Error(w, use, http.StatusUnsupportedMediaType)
		return
	}
	var asked struct {
		Mode decorator.Mode `json:"mode"`
	}
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<10))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&asked); err != nil {
		http.Error(w, fmt.Sprintf("%v: %s", err, use), http.StatusBadRequest)
		return
	}
	switch err := b.SetMode(asked.Mode); err {
	case nil:
	case errNotWired:
		http.Error(w, err.Error(), http.StatusConflict)
		return
	default:
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	klog.FromContext(r.Context()).Info("Verified reads were switched", "mode", asked.Mode)
	writeJSON(w, b.status())
}

func writeJSON(w http.ResponseWriter, s debugStatus) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(s) // the caller has gone
}

func (b *Backends) status() debugStatus {
	s := debugStatus{Mode: b.Mode(), ModeFile: b.modeFile.status(), Backends: []backendStatus{}}
	for _, r := range b.cfg.Resources {
		s.Resources = append(s.Resources, r.String())
	}
	for _, r := range b.cfg.ExceptResources {
		s.ExceptResources = append(s.ExceptResources, r.String())
	}
	for _, t := range b.connected() {
		s.Backends = append(s.Backends, backendStatus{Status: t.backend.Status(), SentinelKey: t.sentinel, EtcdClients: len(t.clients.shared), Probe: t.probed.Load()})
	}
	switch {
	case b.notWired:
		s.Note = "The server was started with --verified-reads=false: its storages are stock."
	case len(s.Backends) == 0:
		s.Note = "No resource with a watch cache is served."
	}
	return s
}
