package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/rvfloor/rvfloor/examples/apiserver/server"
)

// patience bounds every wait for something that must happen. It only decides how
// long a broken test hangs.
const patience = time.Minute

const (
	api     = "/apis/demo.rvfloor.dev/v1"
	widgets = api + "/namespaces/default/widgets"
	tickets = api + "/namespaces/default/tickets"
)

// start starts a server that ends with the test.
func start(t *testing.T, o server.Options) *caller {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	running, err := server.Start(ctx, o)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	t.Cleanup(func() {
		if err := running.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	client, err := rest.HTTPClientFor(running.ClientConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return &caller{Running: running, http: client}
}

// caller is a server and a plain HTTPS client of it.
type caller struct {
	*server.Running
	http *http.Client
}

// answer is what came back.
type answer struct {
	Code   int
	Header http.Header
	Body   any // decoded JSON
}

// request is one HTTP request; Body is sent as Type, by default JSON.
type request struct {
	Method, Path, Body, Type, Accept string
}

func (c *caller) send(ctx context.Context, r request) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, r.Method, c.URL+r.Path, strings.NewReader(r.Body))
	if err != nil {
		return nil, err
	}
	if r.Body != "" {
		if r.Type == "" {
			r.Type = "application/json"
		}
		req.Header.Set("Content-Type", r.Type)
	}
	if r.Accept != "" {
		req.Header.Set("Accept", r.Accept)
	}
	return c.http.Do(req)
}

// do sends r and reads the whole answer.
func (c *caller) do(ctx context.Context, r request) (answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer to %s %s", r.Method, r.Path))
	defer cancel()
	res, err := c.send(ctx, r)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return answer{}, err
	}
	a := answer{Code: res.StatusCode, Header: res.Header}
	if err := json.Unmarshal(body, &a.Body); err != nil {
		return a, fmt.Errorf("%s %s: %w in %q", r.Method, r.Path, err, body)
	}
	return a, nil
}

// must is do, and fails the test unless the answer has the code.
func (c *caller) must(t *testing.T, code int, r request) answer {
	t.Helper()
	a, err := c.do(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if a.Code != code {
		t.Fatalf("%s %s: %d, want %d: %v", r.Method, r.Path, a.Code, code, a.Body)
	}
	return a
}

// at follows keys into decoded JSON; what is not there is nil.
func at(v any, keys ...string) any {
	for _, k := range keys {
		m, _ := v.(map[string]any)
		v = m[k]
	}
	return v
}

// text is at for strings.
func text(v any, keys ...string) string {
	s, _ := at(v, keys...).(string)
	return s
}

// names are the items' names.
func (a answer) names() []string {
	var names []string
	items, _ := at(a.Body, "items").([]any)
	for _, item := range items {
		names = append(names, text(item, "metadata", "name"))
	}
	return names
}

func (a answer) version() string { return text(a.Body, "metadata", "resourceVersion") }

// event is one line of a watch.
type event struct {
	Type   string `json:"type"`
	Object any    `json:"object"`
}

// stream is an open watch.
type stream struct {
	Code   int
	dec    *json.Decoder
	cancel context.CancelFunc
	body   io.Closer
}

// watch opens one; an answer that is no watch (an error) has its code and no events.
func (c *caller) watch(ctx context.Context, path string) (*stream, answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("the watch gave too little"))
	res, err := c.send(ctx, request{Method: "GET", Path: path})
	if err != nil {
		cancel()
		return nil, answer{}, err
	}
	if res.StatusCode != http.StatusOK {
		defer cancel()
		defer res.Body.Close()
		a := answer{Code: res.StatusCode, Header: res.Header}
		return nil, a, json.NewDecoder(res.Body).Decode(&a.Body)
	}
	return &stream{Code: res.StatusCode, dec: json.NewDecoder(res.Body), cancel: cancel, body: res.Body},
		answer{Code: res.StatusCode, Header: res.Header}, nil
}

// next waits for n events.
func (s *stream) next(n int) ([]event, error) {
	events := make([]event, 0, n)
	for range n {
		var e event
		if err := s.dec.Decode(&e); err != nil {
			return events, fmt.Errorf("event %d of %d: %w", len(events)+1, n, err)
		}
		events = append(events, e)
	}
	return events, nil
}

func (s *stream) close() {
	s.cancel()
	s.body.Close()
}

// object is the JSON of a widget or ticket in the namespace default.
func object(kind, name, labels, spec string) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"apiVersion":"demo.rvfloor.dev/v1","kind":%q,"metadata":{"name":%q`, kind, name)
	if labels != "" {
		fmt.Fprintf(&b, `,"labels":%s`, labels)
	}
	fmt.Fprintf(&b, `},"spec":%s}`, spec)
	return b.String()
}
