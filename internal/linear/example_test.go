package linear_test

import "github.com/rvfloor/rvfloor/internal/linear"

// A LIST is recorded from before it is sent, and the run is judged at the end.
func Example() {
	_ = func(read func() (uint64, []linear.Item), truth func(*linear.Run)) error {
		run := linear.New(linear.Config{SecondOpinion: []string{"/widgets/a/1"}})
		client := run.Client("reader 3")
		list := client.List("/widgets/", "")
		revision, items := read()         // the call itself
		list.Answered(revision, items...) // or list.Failed()
		truth(run)
		err := run.Check().Err()
		return err
	}
}
