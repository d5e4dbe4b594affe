package etcdlab

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// Config says what [Start] starts. The zero value is one member on TCP, with a
// temporary data directory, no fsync, no compaction and no log.
type Config struct {
	// Members is 1 or 3; 0 means 1.
	Members int
	// Dir holds the data, a folder for each member (m0, m1, m2), and outlives the
	// cluster: a later Start with it goes on where this one ended, and so it does with
	// a snapshot restored into m0 of a cluster of one. Empty means a temporary folder
	// that Close removes.
	Dir string
	// Unix lets the members listen for clients on unix sockets, not on loopback TCP.
	Unix bool
	// Proxy puts a [Proxy] of its own before each member's client port, and makes
	// Endpoints those of the proxies (which are TCP, also before a unix socket).
	Proxy bool
	// Tick is raft's heartbeat interval, in whole milliseconds; an election takes ten
	// of them. 0 means 10 ms for one member, which only waits for its own first
	// election, and 50 ms for three, so that a busy machine does not depose leaders.
	Tick time.Duration
	// SnapshotCount, MaxRequestBytes and MaxTxnOps are etcd's settings of these
	// names: raft entries between snapshots, bytes of a request, and operations of
	// one transaction. 0 means etcd's default.
	SnapshotCount   uint64
	MaxRequestBytes uint
	MaxTxnOps       uint
	// Token goes into the cluster id of new members. Empty means a random one, so
	// that no two clusters share an id by accident.
	Token string
	// Fsync makes writes survive a crash of the machine. Off by default: a test has
	// no use for it, and the disk would set the pace.
	Fsync bool
	// Logger gets the servers' log; nil drops it.
	Logger *zap.Logger `json:"-"`
	// Tune has the last word on member i's settings, for what has no field here (TLS,
	// authentication, feature gates). nil changes nothing.
	Tune func(i int, cfg *embed.Config) `json:"-"`
}

func (cfg Config) withDefaults() (Config, error) {
	switch cfg.Members {
	case 0:
		cfg.Members = 1
	case 1, 3:
	default:
		return cfg, fmt.Errorf("etcdlab: Config.Members is %d; set it to 1 or 3", cfg.Members)
	}
	if cfg.Tick < 0 || cfg.Tick%time.Millisecond != 0 {
		return cfg, fmt.Errorf("etcdlab: Config.Tick is %v; set it to whole milliseconds, or 0 for the default", cfg.Tick)
	}
	if cfg.Tick == 0 {
		cfg.Tick = 10 * time.Millisecond
		if cfg.Members > 1 {
			cfg.Tick = 50 * time.Millisecond
		}
	}
	if cfg.Token == "" {
		cfg.Token = rand.Text()
	}
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	return cfg, nil
}

// addresses are where the members listen; index i belongs to member i.
type addresses struct{ peers, clients []url.URL }

// member builds the settings of member i.
func (cfg Config) member(i int, dir string, at addresses) *embed.Config {
	ec := embed.NewConfig()
	ec.Name = memberName(i)
	ec.Dir = filepath.Join(dir, ec.Name)
	ec.ListenPeerUrls, ec.AdvertisePeerUrls = []url.URL{at.peers[i]}, []url.URL{at.peers[i]}
	ec.ListenClientUrls, ec.AdvertiseClientUrls = []url.URL{at.clients[i]}, []url.URL{at.clients[i]}
	initial := make([]string, len(at.peers))
	for j, peer := range at.peers {
		initial[j] = memberName(j) + "=" + peer.String()
	}
	ec.InitialCluster = strings.Join(initial, ",")
	ec.InitialClusterToken = cfg.Token
	ec.TickMs = uint(cfg.Tick.Milliseconds())
	ec.ElectionMs = 10 * ec.TickMs
	ec.UnsafeNoFsync = !cfg.Fsync
	ec.EnableGRPCGateway = false // a REST front with a connection of its own, of no use here
	ec.ZapLoggerBuilder = embed.NewZapLoggerBuilder(cfg.Logger)
	if cfg.SnapshotCount != 0 {
		ec.SnapshotCount = cfg.SnapshotCount
	}
	if cfg.MaxRequestBytes != 0 {
		ec.MaxRequestBytes = cfg.MaxRequestBytes
	}
	if cfg.MaxTxnOps != 0 {
		ec.MaxTxnOps = cfg.MaxTxnOps
	}
	if cfg.Tune != nil {
		cfg.Tune(i, ec)
	}
	return ec
}

func memberName(i int) string { return fmt.Sprintf("m%d", i) }
