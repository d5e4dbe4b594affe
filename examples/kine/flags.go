package main

import (
	"fmt"
	"io"

	"github.com/spf13/pflag"
)

// command is what the command line asks for.
type command struct {
	dsn, dataDir string
	processes    int
	port         int
	stock        bool
}

// parse reads the command line. It returns pflag.ErrHelp when help was asked for and has
// been printed.
func parse(args []string, stderr io.Writer) (command, error) {
	var c command
	flags := pflag.NewFlagSet("kine", pflag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.SortFlags = false
	flags.StringVar(&c.dsn, "dsn", "", "kine's database, such as postgres://user:password@host/database or memory:// (default: SQLite)")
	flags.StringVar(&c.dataDir, "data-dir", "", "folder that keeps SQLite's files and kine's log; it is made when missing (default: a temporary one, removed at exit)")
	flags.IntVar(&c.processes, "processes", 1, "1, or 2 for two kines over one database, with an API server each")
	flags.IntVar(&c.port, "port", 0, "TCP port of the first API server; 0 takes any free one")
	flags.BoolVar(&c.stock, "stock", false, "leave rvfloor out: upstream's watch cache as it comes, for comparison")
	flags.Usage = func() {
		fmt.Fprintf(stderr, "An API server with rvfloor, over kine.\n\nUsage: go run -C examples/kine . [flags]\n\n%s", flags.FlagUsages())
	}
	if err := flags.Parse(args); err != nil {
		return command{}, err
	}
	switch {
	case flags.NArg() > 0:
		return command{}, fmt.Errorf("%q is no flag: everything is set by flags, see --help", flags.Arg(0))
	case c.processes < 1 || c.processes > 2:
		return command{}, fmt.Errorf("--processes %d: use 1 or 2", c.processes)
	case c.processes == 2 && c.dsn == "memory://":
		return command{}, fmt.Errorf("--processes 2: two kines share no memory: use SQLite or PostgreSQL")
	}
	return c, nil
}
