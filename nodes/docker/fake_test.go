package docker

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/stretchr/testify/require"
)

// fakeEngine is a small Docker engine behind a unix socket: it records images and
// containers without running them, and gives the answers of the real one.
type fakeEngine struct {
	t *testing.T

	mu         sync.Mutex
	api        string // what /_ping says
	minAPI     string // requests below it are refused
	info       map[string]any
	images     map[string]map[string]string // labels by reference
	loads      int
	loadError  string
	containers []*fakeContainer
	created    map[string]container.CreateRequest // by name
	listings   int
	pid        int
}

type fakeContainer struct {
	ID, Name string
	Labels   map[string]string
	Image    string
	from     int // the first listing that shows it
}

// newFake starts an engine and returns it with a client of it.
func newFake(t *testing.T) (*fakeEngine, *Engine) {
	t.Helper()
	f := &fakeEngine{
		t: t, api: "1.41", minAPI: "1.12", info: map[string]any{"OSType": "linux", "DockerRootDir": "/var/lib/docker"},
		images: map[string]map[string]string{}, created: map[string]container.CreateRequest{}, pid: os.Getpid(),
	}
	dir, err := os.MkdirTemp("", "nkfake") // t.TempDir is too long for a socket's path
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	path := filepath.Join(dir, "docker.sock")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	s := httptest.NewUnstartedServer(http.HandlerFunc(f.serve))
	require.NoError(t, s.Listener.Close())
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	e := NewEngine(func(string) string { return "unix://" + path })
	t.Cleanup(func() { require.NoError(t, e.api.Close()) })
	return f, e
}

func (f *fakeEngine) add(name, image string, labels map[string]string) *fakeContainer {
	c := &fakeContainer{ID: fmt.Sprintf("%064d", len(f.containers)+1), Name: name, Image: image, Labels: labels}
	f.containers = append(f.containers, c)
	return c
}

func (f *fakeEngine) names() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := []string{}
	for _, c := range f.containers {
		out = append(out, c.Name)
	}
	slices.Sort(out)
	return out
}

var versioned = regexp.MustCompile(`^/v([0-9.]+)(/.*)$`)

func (f *fakeEngine) serve(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if f.api != "" {
		w.Header().Set("Api-Version", f.api)
	}
	if r.URL.Path == "/_ping" {
		return
	}
	m := versioned.FindStringSubmatch(r.URL.Path)
	if m == nil {
		refuse(w, http.StatusNotFound, "page not found")
		return
	}
	if number(m[1]) < number(f.minAPI) {
		refuse(w, http.StatusBadRequest, "client version "+m[1]+" is too old. Minimum supported API version is "+f.minAPI)
		return
	}
	if number(m[1]) > number(f.api) {
		refuse(w, http.StatusBadRequest, "client version "+m[1]+" is too new. Maximum supported API version is "+f.api)
		return
	}
	f.route(w, r, r.Method+" "+m[2])
}

func number(version string) (n int) {
	var major int
	_, _ = fmt.Sscanf(version, "%d.%d", &major, &n)
	return 1000*major + n
}

func refuse(w http.ResponseWriter, code int, text string) {
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]string{"message": text})
}

func (f *fakeEngine) route(w http.ResponseWriter, r *http.Request, call string) {
	enc := json.NewEncoder(w)
	switch {
	case call == "GET /info":
		_ = enc.Encode(f.info)
	case call == "GET /version":
		_ = enc.Encode(map[string]string{"Version": "20.10.24"})
	case strings.HasPrefix(call, "GET /images/") && strings.HasSuffix(call, "/json") && call != "GET /images/json":
		ref := strings.TrimSuffix(strings.TrimPrefix(call, "GET /images/"), "/json")
		labels, ok := f.images[ref]
		if !ok {
			refuse(w, http.StatusNotFound, "No such image: "+ref)
			return
		}
		_ = enc.Encode(map[string]any{"Id": "sha256:1", "Config": map[string]any{"Labels": labels}})
	case call == "POST /images/load":
		f.load(w, r)
	case call == "GET /containers/json":
		f.list(w, r)
	case call == "POST /containers/create":
		f.create(w, r)
	case strings.HasPrefix(call, "POST /containers/") && strings.HasSuffix(call, "/start"):
		w.WriteHeader(http.StatusNoContent)
	case strings.HasPrefix(call, "GET /containers/") && strings.HasSuffix(call, "/json"):
		_ = enc.Encode(map[string]any{"Id": "x", "State": map[string]any{"Running": f.pid > 0, "Pid": f.pid, "ExitCode": 3}})
	case strings.HasPrefix(call, "GET /containers/") && strings.HasSuffix(call, "/logs"):
		_, _ = w.Write([]byte("\x02\x00\x00\x00\x00\x00\x00\x0bno such flg"))
	case strings.HasPrefix(call, "DELETE /containers/"):
		f.remove(w, strings.TrimPrefix(call, "DELETE /containers/"))
	default:
		refuse(w, http.StatusNotImplemented, call)
	}
}

func (f *fakeEngine) load(w http.ResponseWriter, r *http.Request) {
	archive, err := io.ReadAll(r.Body)
	if err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	f.loads++
	if f.loadError != "" {
		_ = json.NewEncoder(w).Encode(map[string]any{"errorDetail": map[string]string{"message": f.loadError}, "error": f.loadError})
		return
	}
	ref, labels := readArchive(f.t, archive)
	f.images[ref] = labels
	_ = json.NewEncoder(w).Encode(map[string]string{"stream": "Loaded image: " + ref})
}

func (f *fakeEngine) list(w http.ResponseWriter, r *http.Request) {
	f.listings++
	var filters map[string]map[string]bool
	_ = json.Unmarshal([]byte(r.URL.Query().Get("filters")), &filters)
	out := []map[string]any{}
	for _, c := range f.containers {
		match := f.listings > c.from
		for want := range filters["label"] {
			key, value, given := strings.Cut(want, "=")
			have, ok := c.Labels[key]
			match = match && ok && (!given || have == value)
		}
		for want := range filters["name"] {
			match = match && strings.Contains(c.Name, want)
		}
		if match {
			out = append(out, map[string]any{"Id": c.ID, "Names": []string{"/" + c.Name}, "Image": c.Image, "Labels": c.Labels})
		}
	}
	_ = json.NewEncoder(w).Encode(out)
}

func (f *fakeEngine) create(w http.ResponseWriter, r *http.Request) {
	var req container.CreateRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	name := r.URL.Query().Get("name")
	for _, c := range f.containers {
		if c.Name == name {
			refuse(w, http.StatusConflict, fmt.Sprintf("Conflict. The container name %q is already in use", "/"+name))
			return
		}
	}
	f.created[name] = req
	c := f.add(name, req.Image, req.Labels)
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]string{"Id": c.ID})
}

func (f *fakeEngine) remove(w http.ResponseWriter, id string) {
	before := len(f.containers)
	f.containers = slices.DeleteFunc(f.containers, func(c *fakeContainer) bool { return c.ID == id })
	if len(f.containers) == before {
		refuse(w, http.StatusNotFound, "No such container: "+id)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
