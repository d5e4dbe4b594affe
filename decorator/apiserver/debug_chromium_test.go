//go:build !race

package apiserver

import (
	"context"
	"flag"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var screenshots = flag.String("screenshots", "", "the folder for screenshots of the debug page")

//go:generate go test -count 1 -run ^TestPageInChromium$ -screenshots ../../docs .

// The page as a browser draws it, wide, on a phone and in the dark: nothing sticks out, and the colours follow.
func TestPageInChromium(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("SKIPPED: no chromium here, so no browser has drawn the debug page; on Debian: apt-get install chromium")
	}
	run := func(args ...string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		// --no-sandbox: in a container the user is root.
		cmd := exec.CommandContext(ctx, chromium, append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
			"--no-first-run", "--user-data-dir=" + t.TempDir()}, args...)...)
		cmd.WaitDelay = time.Second
		out, err := cmd.Output()
		require.NoError(t, err)
		return string(out)
	}
	status := sampleStatus()
	mux := http.NewServeMux()
	mux.HandleFunc("/page", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", contentSecurityPolicy)
		assert.NoError(t, writePage(w, status, false))
	})
	// A window cannot be as narrow as a phone, but a frame can. The script measures what is in the frames: the page allows none.
	mux.HandleFunc("/frames", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `<!DOCTYPE html><style>body { margin: 0 } iframe { border: 0; display: block }</style>`)
		for _, name := range r.URL.Query()["view"] {
			scheme := map[bool]string{true: "dark", false: "light"}[name == "dark"]
			fmt.Fprintf(w, `<iframe name="%s" src="/page" width="%d" height="%s" style="color-scheme: %s"></iframe>`,
				html.EscapeString(name), widths[name], html.EscapeString(r.FormValue("height")), scheme)
		}
		fmt.Fprint(w, `<pre></pre><script>onload = () => { for (const f of document.querySelectorAll("iframe")) {
			const d = f.contentDocument, e = d.documentElement, style = f.contentWindow.getComputedStyle(d.body)
			document.querySelector("pre").append([f.name, e.clientWidth, e.scrollWidth, e.scrollHeight,
				d.querySelectorAll("svg rect").length, style.backgroundColor].join(" ") + "\n") } }</script>`)
	})
	server := httptest.NewServer(mux)
	defer server.Close()

	measured := regexp.MustCompile(`(wide|phone|dark) (\d+) (\d+) (\d+) (\d+) (rgb\S+ \S+ \S+)\n`).FindAllStringSubmatch(
		run("--dump-dom", server.URL+"/frames?height=800&view=wide&view=phone&view=dark"), -1)
	require.Len(t, measured, len(widths))
	backs := map[string]string{}
	for _, m := range measured {
		name, inner, content, height, bars := m[1], m[2], m[3], m[4], m[5]
		assert.Equal(t, fmt.Sprint(widths[name]), inner, name)
		assert.Equal(t, inner, content, "%s: the page is wider than the window", name)
		assert.NotEqual(t, "0", bars, "%s: the charts are drawn", name)
		backs[name] = m[6]
		if *screenshots != "" {
			file, err := filepath.Abs(filepath.Join(*screenshots, "debug-"+name+".png"))
			require.NoError(t, err)
			run("--screenshot="+file, fmt.Sprintf("--window-size=%d,%s", widths[name], height),
				fmt.Sprintf("%s/frames?view=%s&height=%s", server.URL, name, height))
		}
	}
	assert.Equal(t, backs["wide"], backs["phone"])
	assert.NotEqual(t, backs["wide"], backs["dark"])
}

// widths are those of the views, in CSS pixels.
var widths = map[string]int{"wide": 1280, "phone": 390, "dark": 1280}
