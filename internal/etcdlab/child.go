package etcdlab

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// childEnv holds the [childSpec] of a process that is to be a member.
const childEnv = "RVFLOOR_ETCDLAB_MEMBER"

// mayHaveChildren is set once this process has passed MaybeMember. A program that
// does not call it would do its usual work in each child, with children of its own.
var mayHaveChildren atomic.Bool

// childSpec is what a child needs to know. Its working directory is its
// [peerDoors] folder, its standard input ends with its parent, and its
// file 3 takes its reports.
type childSpec struct {
	Config    Config
	Index     int
	Dir       string // the members' data
	Advertise string // host:port for clients
}

// report is what a child tells its parent, whole each time, when it has changed.
type report struct {
	// Started: other members are served. Ready: clients are, which takes a leader.
	Started, Ready  bool
	Member, Cluster uint64
	Leader          uint64 // the member that this one takes for the leader, 0 for none
}

// MaybeMember must be called first in main or TestMain by programs that use
// [StartProcesses], whose members run the same program once more. In those it runs
// etcd and does not return; elsewhere it does nothing.
func MaybeMember() {
	spec, ok := os.LookupEnv(childEnv)
	if !ok {
		mayHaveChildren.Store(true)
		return
	}
	os.Unsetenv(childEnv)
	if err := runMember(spec); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// runMember runs a member until SIGTERM ends it in order.
func runMember(text string) error {
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1) // the parent has gone
	}()
	signal.Ignore(os.Interrupt) // Ctrl-C is for the parent
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, syscall.SIGTERM)

	var spec childSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		return err
	}
	calls := newCalls()
	m, err := embed.StartEtcd(spec.etcd(calls))
	if err != nil {
		return err
	}
	reports := json.NewEncoder(os.NewFile(3, "reports"))
	var told report
	ready := m.Server.ReadyNotify()
	// etcd notifies of a new leader, but not of a lost one. A heartbeat is as fine as
	// its own clock is.
	tick := time.NewTicker(spec.Config.Tick)
	defer tick.Stop()
	for {
		now := report{Started: true, Ready: told.Ready, Member: uint64(m.Server.MemberID()),
			Cluster: uint64(m.Server.Cluster().ID()), Leader: uint64(m.Server.Leader())}
		select {
		case <-ready:
			now.Ready = true
		default:
		}
		if now != told {
			if err := reports.Encode(now); err != nil {
				return err
			}
			told = now
		}
		select {
		case <-tick.C:
		case err := <-m.Err():
			return err
		case <-m.Server.StopNotify():
			return fmt.Errorf("etcd stopped by itself")
		case <-terminate:
			<-calls.end()
			m.Close()
			return nil
		}
	}
}

// etcd builds the settings of the member in this process.
func (spec childSpec) etcd(calls *calls) *embed.Config {
	cfg := spec.Config
	cfg.Logger = zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig()),
		zapcore.AddSync(os.Stderr), zapcore.InfoLevel))
	at := addresses{peers: peerURLs(cfg.Members), clients: make([]url.URL, cfg.Members)}
	at.clients[spec.Index] = url.URL{Scheme: "http", Host: spec.Advertise}
	ec := cfg.member(spec.Index, spec.Dir, at)
	ec.ListenPeerUrls = []url.URL{{Scheme: "unix", Host: peerSocket}}
	ec.ListenClientUrls = []url.URL{{Scheme: "unix", Host: clientSocket}}
	ec.GRPCAdditionalServerOptions = append(ec.GRPCAdditionalServerOptions, calls.serverOptions()...)
	return ec
}
