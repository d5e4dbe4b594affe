package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"
)

// limit is how long a probe may take beside its effort.
const limit = 15 * time.Second

// options are what the flags say.
type options struct {
	endpoints         []string
	caCert, cert, key string
	user, password    string
	prefix            string
	effort            time.Duration
	json, cleanup     bool
}

// parse reads the flags. Its errors name the flag and the fix.
func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	var endpoints, user string
	flags := flag.NewFlagSet("doctor", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // an error says what is wrong, without the list of all flags
	flags.StringVar(&endpoints, "endpoints", "", "the backend's members, comma separated, such as http://127.0.0.1:2379 (required)")
	flags.StringVar(&o.caCert, "cacert", "", "a `file` with the certificate authority of the backend")
	flags.StringVar(&o.cert, "cert", "", "a `file` with a client certificate; with --key")
	flags.StringVar(&o.key, "key", "", "a `file` with the key of --cert")
	flags.StringVar(&user, "user", "", "`name:password` of an etcd user")
	flags.StringVar(&o.prefix, "prefix", "/registry", "the API server's --etcd-prefix; nothing is written but under rvfloor/probe/ in it")
	flags.DurationVar(&o.effort, "effort", 2*time.Second, "how long concurrent trials go on: the longer, the rarer the faults that are found")
	flags.BoolVar(&o.json, "json", false, "print one JSON object instead of a table")
	flags.BoolVar(&o.cleanup, "cleanup", false, "probe nothing, and delete what rvfloor keeps: the sentinel key, and what killed probes left")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		flags.SetOutput(stderr)
		fmt.Fprintln(stderr, "Tells whether verified reads over a backend are safe: exit status 0, or 1 if not, or 2.")
		flags.PrintDefaults()
		return o, err
	case err != nil:
		return o, fmt.Errorf("%w (--help lists the flags)", err)
	case flags.NArg() > 0:
		return o, fmt.Errorf("%q is not a flag; give the members as --endpoints=%s", flags.Arg(0), flags.Arg(0))
	}
	for endpoint := range strings.SplitSeq(endpoints, ",") {
		if endpoint = strings.TrimSpace(endpoint); endpoint != "" {
			o.endpoints = append(o.endpoints, endpoint)
		}
	}
	if user != "" {
		var ok bool
		if o.user, o.password, ok = strings.Cut(user, ":"); !ok || o.user == "" {
			return o, errors.New("--user needs a name and a password, as name:password")
		}
	}
	switch {
	case len(o.endpoints) == 0:
		return o, errors.New("--endpoints is missing; say where the backend is, such as --endpoints=http://127.0.0.1:2379")
	case (o.cert == "") != (o.key == ""):
		return o, errors.New("--cert and --key go together; give both files or neither")
	case !strings.HasPrefix(o.prefix, "/"):
		return o, fmt.Errorf("--prefix is %q; it has to begin with /, as /registry does", o.prefix)
	case o.effort <= 0 || o.effort > time.Minute:
		return o, fmt.Errorf("--effort is %v; give it more than 0 and at most 1m", o.effort)
	case o.cleanup && o.json:
		return o, errors.New("--cleanup has no report; leave --json out")
	}
	return o, nil
}
