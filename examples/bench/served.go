package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rvfloor/rvfloor/internal/httplab"
	"github.com/rvfloor/rvfloor/internal/sides"
)

// server is an API server's endpoints over a side's storage, and a client that reads from
// them no more than it has to.
type server struct {
	url     string
	client  http.Client
	flushes atomic.Int64
}

// served opens a storage with a watch cache behind HTTP, and asks it for watch-lists.
func served(kind sides.Kind) opener {
	return func(ctx context.Context, port *sides.Port) (source, error) {
		store, end, err := sides.Open(ctx, kind, port)
		if err != nil {
			return source{}, err
		}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return source{}, errors.Join(err, end())
		}
		s := &server{url: "http://" + listener.Addr().String()}
		transport := &http.Transport{DisableCompression: true}
		s.client.Transport = transport
		handler := httplab.NewHandler(store, httplab.Config{Prefix: "/pods"})
		web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			handler.ServeHTTP(&countedFlushes{ResponseWriter: w, count: &s.flushes}, r)
		})}
		serving := make(chan error, 1)
		go func() { serving <- web.Serve(listener) }()
		return source{call: s.watchList, informed: s, store: store, end: func() error {
			transport.CloseIdleConnections()
			err := web.Close()
			if serveErr := <-serving; !errors.Is(serveErr, http.ErrServerClosed) {
				err = errors.Join(err, serveErr)
			}
			return errors.Join(err, end())
		}}, nil
	}
}

type countedFlushes struct {
	http.ResponseWriter
	count *atomic.Int64
}

// Flush implements http.Flusher.
func (c *countedFlushes) Flush() {
	c.count.Add(1)
	c.ResponseWriter.(http.Flusher).Flush()
}

// watchList reads a watch-list of all that is listed, to the bookmark at its end.
func (s *server) watchList(ctx context.Context) (a sides.Answer, err error) {
	err = s.lines(ctx, listedNamespace, "sendInitialEvents=true&resourceVersionMatch=NotOlderThan", func() {}, func(line []byte) (more bool, err error) {
		if !bytes.HasPrefix(line, []byte(`{"type":"BOOKMARK"`)) {
			a.Items++
			return true, nil
		}
		var event struct{ Object metav1.PartialObjectMetadata }
		if err := json.Unmarshal(line, &event); err != nil {
			return false, err
		}
		a.Revision, err = sides.Versioner.ParseResourceVersion(event.Object.ResourceVersion)
		return event.Object.Annotations[metav1.InitialEventsAnnotationKey] != "true", err
	})
	return a, err
}

// watch watches the pods of a namespace from a revision on, and calls opened once and then
// seen for each event, until ctx ends.
func (s *server) watch(ctx context.Context, namespace string, revision uint64, opened, seen func()) error {
	return s.lines(ctx, namespace, fmt.Sprintf("resourceVersion=%d", revision), opened, func(line []byte) (bool, error) {
		switch {
		case bytes.HasPrefix(line, []byte(`{"type":"MODIFIED"`)):
			seen()
		case !bytes.HasPrefix(line, []byte(`{"type":"BOOKMARK"`)):
			return false, fmt.Errorf("bench: an event that nothing was written for: %s", line)
		}
		return true, nil
	})
}

// lines opens a watch that allows bookmarks, as client-go's all do, and calls each with
// every line of it until it wants no more.
func (s *server) lines(ctx context.Context, namespace, query string, opened func(), each func(line []byte) (more bool, err error)) error {
	url := s.url + httplab.PodsPath(namespace) + "?watch=1&allowWatchBookmarks=true&timeoutSeconds=3600&" + query
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(response.Body)
		return fmt.Errorf("bench: a watch was answered with %s: %s", response.Status, body)
	}
	opened()
	for lines := bufio.NewReaderSize(response.Body, 64<<10); ; {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return err
		}
		if more, err := each(line); err != nil || !more {
			return err
		}
	}
}
