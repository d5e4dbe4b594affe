package etcdlab

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
)

// WatchStreams is how many streams of watches the members that run have open, as they
// tell in their metrics. It does not return before a frozen member is thawed, or ctx
// ends.
func (c *Processes) WatchStreams(ctx context.Context) (total int, err error) {
	for i := range c.cfg.Members {
		c.mu.Lock()
		runs := c.running[i] != nil
		c.mu.Unlock()
		if !runs {
			continue
		}
		n, err := c.metric(ctx, i, "etcd_debugging_mvcc_watch_stream_total")
		if err != nil {
			return 0, fmt.Errorf("etcdlab: metrics of member %d: %w", i, err)
		}
		total += n
	}
	return total, nil
}

// metric is the value of a metric without labels of member i.
func (c *Processes) metric(ctx context.Context, i int, name string) (int, error) {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(c.peers.dir(i), clientSocket))
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://member/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.Atoi(value)
		}
	}
	return 0, fmt.Errorf("no %s (status %s, %v)", name, resp.Status, lines.Err())
}
