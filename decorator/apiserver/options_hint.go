package apiserver

import (
	"fmt"

	"github.com/spf13/pflag"
)

// uses are what to write instead of a value that cannot be read, by the type of the flag. Values of other types can.
var uses = map[string]string{
	"bool":        "true or false",
	"int":         "a whole number",
	"duration":    "a duration, such as 3s or 200ms",
	"stringSlice": "names with commas between them",
}

// hint completes the errors of pflag, which name the flag and the value, with what to use instead.
func hint(f *pflag.Flag) {
	use, ok := uses[f.Value.Type()]
	if !ok {
		return
	}
	if f.DefValue == "0s" || f.DefValue == "[]" {
		f.DefValue = "" // pflag shows no default that is none, but knows it by the type of the value alone
	}
	f.Value = hinted{f.Value, use}
}

type hinted struct {
	pflag.Value
	use string
}

func (h hinted) Set(text string) error {
	if err := h.Value.Set(text); err != nil {
		return fmt.Errorf("%w: use %s", err, h.use)
	}
	return nil
}
