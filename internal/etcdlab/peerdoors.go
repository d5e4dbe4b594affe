package etcdlab

import (
	"bufio"
	"context"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
)

// Names of unix sockets in a member's folder of sockets.
const (
	peerSocket   = "peer"   // where the member listens for others
	clientSocket = "client" // where it listens for clients
)

// peerURLs are what members tell each other about where they are. etcd takes the
// host of a unix URL for a path relative to the working directory: as each child
// has one of its own, the same URL leads each through a door of its own.
func peerURLs(members int) []url.URL {
	urls := make([]url.URL, members)
	for i := range urls {
		// With a port, because an HTTP client would add one.
		urls[i] = url.URL{Scheme: "unix", Host: memberName(i) + ":1"}
	}
	return urls
}

// peerDoors stand between the members: one for each ordered pair of the one that
// dials and the one that is dialed. Behind them are the wires, by who speaks to
// whom, which is not the same: a member dials another to hear its stream of
// messages, and dials it to post one.
type peerDoors struct {
	sockets   string // holds a folder for each member, its child's working directory
	listeners []net.Listener
	wires     map[[2]int]*Wire // by speaker and hearer
	wg        sync.WaitGroup
}

func openPeerDoors(sockets string, members int) (*peerDoors, error) {
	d := &peerDoors{sockets: sockets, wires: map[[2]int]*Wire{}}
	for from := range members {
		for to := range members {
			if to != from {
				d.wires[[2]int{from, to}] = newWire()
			}
		}
	}
	for from := range members {
		if err := os.Mkdir(d.dir(from), 0o700); err != nil {
			return d, err
		}
		for to, u := range peerURLs(members) {
			if to == from {
				continue
			}
			listener, err := net.Listen("unix", filepath.Join(d.dir(from), u.Host))
			if err != nil {
				return d, err
			}
			d.listeners = append(d.listeners, listener)
			d.wg.Go(func() {
				acceptAll(listener, func(conn net.Conn) { d.wg.Go(func() { d.enter(conn, from, to) }) })
			})
		}
	}
	return d, nil
}

// close must come after the end of all members: it waits for their connections.
func (d *peerDoors) close() {
	for _, listener := range d.listeners {
		listener.Close()
	}
	for _, wire := range d.wires {
		wire.close()
	}
	d.wg.Wait()
}

// dir is the folder of sockets of member i.
func (d *peerDoors) dir(i int) string { return filepath.Join(d.sockets, memberName(i)) }

// enter finds out what a connection is for by how it begins, and hands it on.
// Connections carry either one stream or none: etcd does not use one again.
func (d *peerDoors) enter(conn net.Conn, dialed, target int) {
	const stream = "GET /raft/stream/"
	reader := bufio.NewReader(conn)
	start, err := reader.Peek(len(stream))
	if err != nil {
		conn.Close()
		return
	}
	wire := d.wires[[2]int{dialed, target}]
	if string(start) == stream {
		wire = d.wires[[2]int{target, dialed}]
	}
	wire.admit(peeked{conn.(*net.UnixConn), reader}, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(d.dir(target), peerSocket))
	})
}

// peeked is a connection of which something was read that is still to be read.
type peeked struct {
	*net.UnixConn
	reader *bufio.Reader
}

func (c peeked) Read(p []byte) (int, error) { return c.reader.Read(p) }
