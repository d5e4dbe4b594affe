package apiserver

import (
	"bytes"
	"math"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rvfloor/rvfloor/decorator"
	"github.com/rvfloor/rvfloor/internal/etcdlab"
)

// A running server whose etcd is out of reach is switched off, to shadow and back, and each read follows.
func TestSwitchOverHTTP(t *testing.T) {
	cluster := etcdlab.Run(t, etcdlab.Config{Proxy: true})
	s := serve(t, "--etcd-servers="+cluster.Endpoints()[0], "--verified-reads-max-wait=200ms").ready(t)
	cluster.Proxy(0).Hold()
	defer cluster.Proxy(0).Release()
	before := s.debug(t).Backends[0].Resources[0].Reads["no_floor"] // on a busy machine
	read := func() int { return s.do(t, "GET", podsPath+"?resourceVersion=0", "").code }
	unverified := func() uint64 { return s.debug(t).Backends[0].Resources[0].Reads["no_floor"] - before }
	switchTo := func(method, body string, header ...string) int {
		return s.do(t, method, DebugPath, body, header...).code
	}
	isJSON := []string{"Content-Type", "application/json; charset=utf-8"}

	assert.Equal(t, http.StatusGatewayTimeout, read())
	require.EqualValues(t, 1, unverified())
	require.Equal(t, http.StatusOK, switchTo("POST", `{"mode":"off"}`, isJSON...))
	assert.Equal(t, decorator.ModeOff, s.debug(t).Mode)
	assert.Equal(t, http.StatusOK, read())
	assert.Equal(t, http.StatusOK, s.do(t, "GET", "/readyz/rvfloor", "").code, "nothing is verified that could fail")
	require.Equal(t, http.StatusOK, switchTo("PUT", `{"mode":"shadow"}`), "as kubectl replace --raw, which sends no type")
	assert.Equal(t, http.StatusOK, read())
	assert.Eventually(t, func() bool { return unverified() == 2 }, wait, tick, "shadow counts what it would have failed")
	require.Equal(t, http.StatusOK, switchTo("POST", `{"mode":"verify"}`, isJSON...))
	assert.Equal(t, http.StatusGatewayTimeout, read())

	for name, refused := range map[string]struct {
		code int
		says string
		answer
	}{
		"what a form can send":  {415, "application/json", s.do(t, "POST", DebugPath, `{"mode":"off"}`, "Content-Type", "text/plain")},
		"no type":               {415, "application/json", s.do(t, "POST", DebugPath, `{"mode":"off"}`)},
		"an unknown mode":       {400, `"verify" "shadow" "off"`, s.do(t, "POST", DebugPath, `{"mode":"on"}`, isJSON...)},
		"an unknown field":      {400, `{"mode":"off"}`, s.do(t, "POST", DebugPath, `{"shadow":true}`, isJSON...)},
		"no body":               {400, `{"mode":"off"}`, s.do(t, "POST", DebugPath, "", isJSON...)},
		"another method":        {405, "GET", s.do(t, "DELETE", DebugPath, "")},
		"who may not switch":    {403, "", s.do(t, "POST", DebugPath, `{"mode":"off"}`, append(isJSON, "Test-User", "somebody")...)},
		"who may not even look": {403, "", s.do(t, "GET", DebugPath, "", "Test-User", "somebody")},
	} {
		assert.Equal(t, refused.code, refused.answer.code, name)
		assert.Contains(t, refused.body, refused.says, name)
	}
	assert.Equal(t, decorator.ModeVerify, s.debug(t).Mode)

	cluster.Proxy(0).Release()
	off := serve(t, "--etcd-servers="+cluster.Endpoints()[0], "--verified-reads=false")
	a := off.do(t, "POST", DebugPath, `{"mode":"verify"}`, isJSON...)
	assert.Equal(t, http.StatusConflict, a.code)
	assert.Contains(t, a.body, "restart it without the flag")
	assert.Equal(t, http.StatusOK, off.do(t, "POST", DebugPath, `{"mode":"off"}`, isJSON...).code)
}

// A mode that was set before there was a transport holds for those that come.
func TestModeOfLaterTransports(t *testing.T) {
	etcd := startEtcd(t)
	b := newBackends(t, Config{Shadow: true})
	assert.Equal(t, decorator.ModeShadow, b.Mode())
	require.NoError(t, b.SetMode(decorator.ModeOff))
	r, err := b.open(podSpec(storageConfig(etcd.Endpoints()...), podPrefix))
	require.NoError(t, err)
	assert.Equal(t, decorator.ModeOff, r.transport.backend.Mode())
	require.NoError(t, b.SetMode(decorator.ModeVerify))
	assert.Equal(t, decorator.ModeVerify, r.transport.backend.Mode())
}

// People get a page, programs get JSON, at the same URL.
func TestDebugPage(t *testing.T) {
	etcd := startEtcd(t)
	s := serve(t, "--etcd-servers="+etcd.Endpoints()[0]).ready(t)
	createPod(t, s, "a")
	require.Equal(t, http.StatusOK, s.do(t, "GET", podsPath, "").code)
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	for accept, want := range map[string]string{browser: "text/html", "": "text/html", "application/json": "application/json", "application/json, */*": "application/json"} {
		a := s.do(t, "GET", DebugPath, "", "Accept", accept)
		require.Equal(t, http.StatusOK, a.code)
		assert.Contains(t, a.header.Get("Content-Type"), want, accept)
		assert.Equal(t, "no-store", a.header.Get("Cache-Control"))
	}
	page := s.do(t, "GET", DebugPath, "", "Accept", browser)
	assert.Contains(t, page.header.Get("Content-Security-Policy"), "default-src 'none'")
	assert.Contains(t, page.body, "pods.example.apiserver.k8s.io")
	assert.NotContains(t, page.body, `http-equiv="refresh"`)
	assert.Contains(t, s.do(t, "GET", DebugPath+"?live", "", "Accept", browser).body, `http-equiv="refresh"`)

	pods := s.debug(t).Backends[0].Resources[0]
	assert.Equal(t, "pods", pods.Resource)
	assert.True(t, pods.Ready && pods.Feed)
	assert.NotZero(t, pods.Floor)
	assert.GreaterOrEqual(t, pods.Applied, pods.Floor)
	assert.NotNil(t, pods.LastFresh)
	assert.NotZero(t, pods.Reads["ok"])
	assert.Len(t, s.debug(t).Backends[0].History, 60)
}

// Whatever a string holds, it stays text.
func TestPageEscapes(t *testing.T) {
	const evil = `"><script>alert(1)</script>`
	hostile := sampleStatus()
	var poison func(v reflect.Value)
	poison = func(v reflect.Value) {
		switch v.Kind() {
		case reflect.String:
			v.SetString(evil)
		case reflect.Pointer:
			if !v.IsNil() {
				poison(v.Elem())
			}
		case reflect.Struct:
			for i := range v.NumField() {
				if v.Field(i).CanSet() {
					poison(v.Field(i))
				}
			}
		case reflect.Slice:
			for i := range v.Len() {
				poison(v.Index(i))
			}
		case reflect.Map:
			v.SetMapIndex(reflect.ValueOf(evil), reflect.ValueOf(uint64(1)))
		}
	}
	poison(reflect.ValueOf(&hostile))
	var page bytes.Buffer
	require.NoError(t, writePage(&page, hostile, false))
	assert.NotContains(t, page.String(), "<script")
	assert.Greater(t, strings.Count(page.String(), "&lt;script"), 20, "it is shown, as text")
}

func TestChart(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	history := []decorator.Interval{
		{Start: start, Waits: 2, MeanWaitSeconds: .005, MaxWaitSeconds: .01, FloorReads: 2, Callers: 6},
		{},
		{Start: start.Add(10 * time.Second), Waits: 1, MeanWaitSeconds: .02, MaxWaitSeconds: .02, FloorReads: 1, Callers: 1},
		{},
	}
	c := waitChart(history)
	assert.Equal(t, "20 ms", c.Top)
	assert.Equal(t, []bar{
		{X: 0, Width: 20, High: 50, Low: 25, Tip: "03:04:05: 2 reads waited 5.00 ms, the longest 10 ms"},
		{X: 50, Width: 20, High: 100, Low: 100, Tip: "03:04:15: 1 reads waited 20 ms, the longest 20 ms"},
	}, c.Bars)
	c = batchChart(history)
	assert.Equal(t, "3.0", c.Top)
	assert.InDelta(t, 100./3, c.Bars[1].High, 1e-9)
	assert.Empty(t, waitChart(make([]decorator.Interval, 4)).Bars)
}

// sampleStatus is a busy server with something wrong in it.
func sampleStatus() debugStatus {
	now := time.Now()
	ago := func(d time.Duration) *time.Time { return new(now.Add(-d)) }
	history := make([]decorator.Interval, 60)
	for i := range history {
		wave := math.Pow(math.Sin(float64(i)/9), 2)
		history[i] = decorator.Interval{
			Start: now.Add(time.Duration(i-60) * 5 * time.Second), FloorReads: 900, Callers: 900 + uint64(4000*wave),
			Waits: 900 + uint64(4000*wave), MeanWaitSeconds: .0006 + .001*wave, MaxWaitSeconds: .002 + .012*wave*math.Abs(math.Sin(float64(i))),
		}
	}
	policy := decorator.PolicyStatus{ZeroVersion: "Verified", OnUnverified: "Quorum", MaxWaitSeconds: 3, ReadyWaitSeconds: .2}
	strategy := decorator.StrategyStatus{Name: "request", Reason: `progress is answered, in order, and reaches the floor`}
	modeFile := &modeFileStatus{Path: "/etc/kubernetes/verified-reads/a-folder-with-a-long-name/mode", Mode: decorator.ModeShadow,
		Error: &decorator.ErrorStatus{Time: *ago(time.Minute), Message: "--verified-reads-mode-file: /etc/kubernetes/verified-reads/a-folder-with-a-long-name/mode says \"of\": write one of the words verify, shadow, off into it"}}
	return debugStatus{Mode: decorator.ModeVerify, ModeFile: modeFile, ExceptResources: []string{"events", "leases.coordination.k8s.io"}, Backends: []backendStatus{
		{
			Status: decorator.Status{
				Name: "etcd-0.example:2379,etcd-1.example:2379,etcd-2.example:2379", Source: "etcd key /registry/rvfloor/sentinel",
				Mode: decorator.ModeVerify, Policy: policy, Strategy: strategy, Floor: &decorator.FloorStatus{Revision: 48211973, AgeSeconds: .004},
				FloorReads: 1203441, FloorReadsFailed: 2, BatchSize: 14, History: history,
				LastFloorError: &decorator.ErrorStatus{Time: *ago(42 * time.Minute), Message: "freshness: no floor could be read: etcdserver: leader changed"},
				Resources: []decorator.ResourceStatus{
					{Resource: "configmaps", Feed: true, Ready: true, Floor: 48211970, Applied: 48211973, LastFresh: ago(20 * time.Millisecond), Reads: map[string]uint64{"ok": 88210}, Kicks: 80113, AheadSent: 70210, AheadPaid: 69877},
					{Resource: "pods", Feed: true, Ready: true, Floor: 48211973, Applied: 48211961, Lag: 12, Waiters: 31, LastFresh: ago(30 * time.Millisecond), Reads: map[string]uint64{"ok": 912345, "not_fresh": 3, "canceled": 41}, Kicks: 40991, KicksFailed: 7, AheadSent: 31022, AheadPaid: 30990,
						LastError: &decorator.ErrorStatus{Time: *ago(90 * time.Second), Message: "rvfloor: the watch cache did not become fresh in time: it is at 48190022 and 48190107 was asked for: the longest wait for a fresh cache is over"}},
					{Group: "apps", Resource: "deployments", Feed: true, Ready: true, Floor: 48211001, Applied: 48211973, LastFresh: ago(8 * time.Second), Reads: map[string]uint64{"ok": 5120}, Kicks: 611},
					{Group: "verylonggroupname.customresources.example.com", Resource: "certificaterequests", Feed: true, Floor: 0, Applied: 0, Reads: map[string]uint64{"not_ready": 4}},
				},
			},
			SentinelKey: "/registry/rvfloor/sentinel", EtcdClients: 2,
		},
		{
			Status: decorator.Status{
				Name: "etcd-events.example:2379", Source: "etcd key /registry/rvfloor/sentinel", Mode: decorator.ModeVerify, Policy: policy, Strategy: strategy,
				Floor: &decorator.FloorStatus{Revision: 991, AgeSeconds: 371}, FloorReads: 20, BatchSize: 1, Failing: true, Rewinds: 1, History: make([]decorator.Interval, 60),
				Rewound:   "freshness: the backend was rewound: read 991 after 120044 was seen",
				Resources: []decorator.ResourceStatus{{Group: "events.k8s.io", Resource: "events", Feed: true, Ready: true, Floor: 120044, Applied: 120044, LastFresh: ago(6 * time.Minute), Reads: map[string]uint64{"ok": 18, "rewound": 240}, Kicks: 9}},
			},
			SentinelKey: "/registry/rvfloor/sentinel", EtcdClients: 2,
		},
	}}
}
