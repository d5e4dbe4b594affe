package operations

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rvfloor/rvfloor/internal/httplab"
)

// calls are the rows of the table. A watch from a revision has "watch" in its query.
var calls = []struct {
	name string
	path func(*server) string
}{
	{"GET", func(*server) string { return "/a" }},
	{"GET at 0", func(*server) string { return "/a?resourceVersion=0" }},
	{"LIST", func(*server) string { return "" }},
	{"LIST at 0", func(*server) string { return "?resourceVersion=0" }},
	{"LIST not older than N", func(s *server) string { return "?resourceVersionMatch=NotOlderThan&resourceVersion=" + s.seen }},
	{"LIST exactly N", func(s *server) string { return "?resourceVersionMatch=Exact&resourceVersion=" + s.seen }},
	{"LIST exactly N, old", func(s *server) string { return "?resourceVersionMatch=Exact&resourceVersion=" + s.old }},
	{"LIST, next page, old", func(s *server) string { return "?limit=1&continue=" + url.QueryEscape(s.page()) }},
	{"WATCH", func(*server) string { return "?watch=1" }},
	{"WATCH at 0", func(*server) string { return "?watch=1&resourceVersion=0" }},
	{"WATCH with initial events", func(*server) string {
		return "?watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
	}},
	{"WATCH from N", func(s *server) string { return "?watch=1&resourceVersion=" + s.seen }},
	{"WATCH from N, old", func(s *server) string { return "?watch=1&resourceVersion=" + s.old }},
	{"create", nil},
}

// page is the token of the second page of a list at the old revision.
func (s *server) page() string {
	revision, _ := strconv.ParseInt(s.old, 10, 64)
	token, err := storage.EncodeContinue("/pods/default/a\x00", "/pods/default/", revision)
	if err != nil {
		panic(err)
	}
	return token
}

// ask makes a call and tells its answer in the words of the table: the status and, of
// an error, the reason and Retry-After in seconds; of a watch, its first event where
// that is an error.
//
// What only the server's request timeout ends is "hangs": it answers 504 Timeout
// without a Retry-After, or cuts the connection where the answer had begun.
func (s *server) ask(t *testing.T, path func(*server) string) string {
	began := time.Now()
	answer := s.answer(t, path)
	if time.Since(began) >= s.requestTimeout() && (answer == "504 Timeout" || strings.HasSuffix(answer, "EOF")) {
		return "hangs"
	}
	return answer
}

func (s *server) answer(t *testing.T, path func(*server) string) string {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	method, body, where := http.MethodGet, "", ""
	if path == nil {
		method, body = http.MethodPost, `{"apiVersion":"example.apiserver.k8s.io/v1","kind":"Pod","metadata":{"generateName":"new-"}}`
	} else {
		where = path(s)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.url+where, strings.NewReader(body))
	if err != nil {
		return err.Error()
	}
	req.Header.Set("Content-Type", "application/json")
	if s.user != "" {
		req.Header.Set(httplab.UserHeader, s.user)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	decoder := json.NewDecoder(res.Body)
	if res.StatusCode >= 400 {
		return describe(decoder, res.Header.Get("Retry-After"))
	}
	if strings.Contains(where, "watch=1") {
		var event struct {
			Type   string
			Object json.RawMessage
		}
		if err := decoder.Decode(&event); err != nil {
			return err.Error()
		}
		if event.Type == "ERROR" {
			return "event " + describe(json.NewDecoder(strings.NewReader(string(event.Object))), "")
		}
	}
	if res.Header.Get("Warning") != "" {
		return fmt.Sprintf("%d with a Warning", res.StatusCode)
	}
	return fmt.Sprint(res.StatusCode)
}

func describe(decoder *json.Decoder, retryAfter string) string {
	var status metav1.Status
	if err := decoder.Decode(&status); err != nil {
		return err.Error()
	}
	text := strings.TrimSpace(fmt.Sprintf("%d %s", status.Code, status.Reason))
	if retryAfter != "" {
		text += ", " + retryAfter + " s"
	}
	return text
}
