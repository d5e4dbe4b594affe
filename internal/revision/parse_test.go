package revision

import (
	"errors"
	"math"
	"strconv"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]uint64{
		"":                     0,
		"0":                    0,
		"1":                    1,
		"007":                  7,
		"18446744073709551615": math.MaxUint64,
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("Parse(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{
		"-1", "+1", " 1", "1 ", "1_000", "0x10", "1.0", "1e3", "one", "\x00", "١",
		"18446744073709551616",
	} {
		got, err := Parse(text)
		if err == nil || got != 0 {
			t.Errorf("Parse(%q) = %d, %v; want 0 and an error", text, got, err)
		}
		if _, ok := errors.AsType[*strconv.NumError](err); !ok {
			t.Errorf("Parse(%q): %v does not wrap its cause", text, err)
		}
	}
}

// FuzzParse holds Parse to the language of the storages below: a text that
// they understand is understood here, to the same number.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "0", "1", "007", "-1", "18446744073709551616", " 1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Parse(text)
		want, wantErr := strconv.ParseUint(text, 10, 64)
		if text == "" {
			wantErr = nil
		}
		if wantErr != nil {
			want = 0
		}
		if got != want || (err == nil) != (wantErr == nil) {
			t.Fatalf("Parse(%q) = %d, %v; the storages read %d, %v", text, got, err, want, wantErr)
		}
		if err == nil {
			if again, err := Parse(Format(got)); err != nil || again != got {
				t.Fatalf("Parse(Format(%d)) = %d, %v", got, again, err)
			}
		}
	})
}
