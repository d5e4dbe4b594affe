package etcdlab

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// pickAddresses finds an address for each listener. etcd opens its listeners
// itself and wants to know beforehand what to tell others, so TCP ports are found
// by opening and closing them; Start tries again when somebody was quicker.
func (cfg Config) pickAddresses(dir, sockets string) (addresses, error) {
	at := addresses{peers: make([]url.URL, cfg.Members), clients: make([]url.URL, cfg.Members)}
	hosts, err := freeHosts(2 * cfg.Members)
	if err != nil {
		return at, err
	}
	for i := range cfg.Members {
		at.clients[i] = url.URL{Scheme: "http", Host: hosts[2*i]}
		if cfg.Unix {
			at.clients[i] = url.URL{Scheme: "unix", Path: filepath.Join(sockets, memberName(i))}
		}
		at.peers[i] = url.URL{Scheme: "http", Host: hosts[2*i+1]}
	}
	if cfg.Members == 1 {
		at.peers[0].Host = "127.0.0.1:0" // nobody dials the only member, so any port does
	}
	return at, keepPeers(peersFile(dir), at.peers)
}

// peersFile holds a line for each member of the cluster in dir.
func peersFile(dir string) string { return filepath.Join(dir, "peers") }

// keepPeers makes a restarted cluster listen where its members expect each other:
// their data holds the peer addresses of the first start.
func keepPeers(file string, peers []url.URL) error {
	stored, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		hosts := make([]string, len(peers))
		for i := range peers {
			hosts[i] = peers[i].Host
		}
		return os.WriteFile(file, []byte(strings.Join(hosts, "\n")), 0o600)
	}
	if err != nil {
		return err
	}
	hosts := strings.Split(string(stored), "\n")
	if len(hosts) != len(peers) {
		return fmt.Errorf("Config.Dir holds a cluster of %d; set Config.Members to that", len(hosts))
	}
	for i := range peers {
		peers[i].Host = hosts[i]
	}
	return nil
}

// freeHosts names n different loopback addresses that were free a moment ago.
func freeHosts(n int) ([]string, error) {
	hosts := make([]string, n)
	for i := range hosts {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // all stay open until all are found, or two might be the same
		hosts[i] = l.Addr().String()
	}
	return hosts, nil
}
