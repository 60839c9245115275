package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/docker/docker/api/types/system"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric/kernel/ktest"
	"github.com/netkvlab/netkvlab/nodes"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// readArchive reads a docker-load archive and checks the references between its parts.
func readArchive(t *testing.T, archive []byte) (ref string, labels map[string]string) {
	t.Helper()
	files := untar(t, archive)
	var manifest []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	require.NoError(t, json.Unmarshal(files["manifest.json"], &manifest))
	require.Len(t, manifest, 1)
	config := files[manifest[0].Config]
	require.Equal(t, hash(config)+".json", manifest[0].Config)
	var c struct {
		Config struct{ Labels map[string]string }
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	require.NoError(t, json.Unmarshal(config, &c))
	require.Equal(t, []string{"sha256:" + hash(files[manifest[0].Layers[0]])}, c.RootFS.DiffIDs)
	return manifest[0].RepoTags[0], c.Config.Labels
}

func untar(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		require.NoError(t, err)
		require.Zero(t, h.ModTime.Unix(), "no time of this build")
		require.Zero(t, h.Uid+h.Gid)
		files[h.Name], err = io.ReadAll(r)
		require.NoError(t, err)
	}
}

// static builds a program that runs in a scratch image.
func static(t *testing.T, cgo ...string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\nfunc main() {}\n"), 0o600))
	out := filepath.Join(dir, "agent")
	cmd := exec.Command("go", append(append([]string{"build"}, cgo...), "-o", out, filepath.Join(dir, "main.go"))...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	text, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", text)
	return out
}

func specOf(t *testing.T, node string) nodes.Spec {
	t.Helper()
	return nodes.Spec{Lab: "lab", Node: node, Dir: filepath.Join(t.TempDir(), node), Executable: static(t)}
}

func TestEngineIsRefusedWithTheWayOut(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		edit func(f *fakeEngine)
		want []string // no error
	}{
		{"Docker 20.10", func(f *fakeEngine) { f.api = "1.41" }, nil},
		{"one that refuses old clients", func(f *fakeEngine) { f.api, f.minAPI = "1.52", "1.44" }, nil},
		{"one that refuses us", func(f *fakeEngine) { f.api, f.minAPI = "1.90", "1.80" }, []string{"refuses API", "use a newer netkvlab"}},
		{"too old", func(f *fakeEngine) { f.api = "1.20" }, []string{"too old", "1.20", "1.41", "20.10", "--runtime process"}},
		{"something else", func(f *fakeEngine) { f.api = "" }, []string{"no Docker engine, or an ailing one"}},
		{"rootless", func(f *fakeEngine) {
			f.info["SecurityOptions"] = []string{"name=seccomp,profile=default", "name=rootless"}
		}, []string{"rootless"}},
		{"Windows", func(f *fakeEngine) { f.info["OSType"] = "windows" }, []string{"windows containers"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f, e := newFake(t)
			tc.edit(f)
			err := New(e, "v1").Prepare(t.Context(), nil)
			if tc.want == nil {
				require.NoError(t, err)
				assert.Equal(t, map[string]string{"docker": "20.10.24"}, New(e, "v1").Versions(t.Context()))
				return
			}
			for _, w := range append(tc.want, e.host) {
				assert.ErrorContains(t, err, w)
			}
			assert.NotErrorIs(t, err, ErrNoEngine)
		})
	}
}

func TestEngineThatIsNotThere(t *testing.T) {
	t.Parallel()
	at := func(host string) *Engine { return NewEngine(func(string) string { return host }) }
	dir := t.TempDir()
	dead := filepath.Join(dir, "dead")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, unix.Bind(fd, &unix.SockaddrUnix{Name: dead}))
	require.NoError(t, unix.Close(fd))
	for _, tc := range []struct{ name, host, want string }{
		{"no socket", "unix://" + dir + "/none", "there is no such socket"},
		{"nobody listens", "unix://" + dead, "no process accepts connections there"},
	} {
		e := at(tc.host)
		err := New(e, "v1").Prepare(t.Context(), nil)
		require.ErrorIs(t, err, ErrNoEngine, tc.name)
		assert.ErrorContains(t, err, tc.want, tc.name)
		assert.ErrorContains(t, err, "--runtime process", tc.name)
		labs, err := e.Labs(t.Context())
		require.NoError(t, err, "no engine, no containers")
		assert.Empty(t, labs)
		_, err = e.Remove(t.Context(), "lab", false)
		assert.ErrorIs(t, err, ErrNoEngine, "but who asks for removal is told")
	}
	for _, host := range []string{"rubbish", "tcp://192.0.2.1:2375", "unix://relative"} {
		err := New(at(host), "v1").Prepare(t.Context(), nil)
		assert.ErrorContains(t, err, "DOCKER_HOST", host)
		assert.NotErrorIs(t, err, ErrNoEngine, host)
	}
}

func TestEngineThatDoesNotAnswerIsGivenUp(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	e := NewEngine(func(string) string { return "unix://" + path })
	defer func() { require.NoError(t, e.api.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	assert.ErrorContains(t, New(e, "v1").Prepare(ctx, nil), "does not answer")
}

func TestImageIsMadeOnceAndAlwaysTheSame(t *testing.T) {
	t.Parallel()
	f, e := newFake(t)
	s := specOf(t, "p0")
	r := New(e, "v1")
	require.NoError(t, r.Prepare(t.Context(), []nodes.Spec{s, s}))
	require.NoError(t, New(e, "v1").Prepare(t.Context(), []nodes.Spec{s}))
	assert.Equal(t, 1, f.loads, "reused while the binary is the same")
	img, err := newAgentImage(s.Executable)
	require.NoError(t, err)
	assert.Equal(t, map[string]string{labelVersion: "v1", labelDigest: img.digest}, f.images[img.ref])
	a, err := img.archive("v1")
	require.NoError(t, err)
	b, err := img.archive("v1")
	require.NoError(t, err)
	assert.Equal(t, hash(a), hash(b), "the same to the byte")
	layer := untar(t, untar(t, a)["layer.tar"])
	assert.Equal(t, hash(img.binary), hash(layer["netkvlab"]))

	other := specOf(t, "p0")
	other.Executable = static(t, "-ldflags=-X main.x=y", "-trimpath", "-gcflags=-N")
	require.NoError(t, New(e, "v1").Prepare(t.Context(), []nodes.Spec{other}))
	assert.Equal(t, 2, f.loads, "another binary, another image")
}

func TestImageFaultsNameTheWayOut(t *testing.T) {
	t.Parallel()
	f, e := newFake(t)
	s := specOf(t, "p0")
	f.loadError = "Error processing tar file(exit status 1): write /netkvlab: no space left on device"
	err := New(e, "v1").Prepare(t.Context(), []nodes.Spec{s})
	assert.ErrorContains(t, err, "the engine's disk is full: free some room below /var/lib/docker")
	f.loadError = ""
	s.Executable = "/bin/sh" // linked with the C library
	err = New(e, "v1").Prepare(t.Context(), []nodes.Spec{s})
	assert.ErrorContains(t, err, "was not linked statically: build it with `make build` (CGO_ENABLED=0)")
	s.Executable = filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(s.Executable, []byte("#!/bin/sh"), 0o600))
	assert.ErrorContains(t, New(e, "v1").Prepare(t.Context(), []nodes.Spec{s}), "no program for Linux")
	s.Image = "my/agent:1"
	assert.ErrorContains(t, New(e, "v1").Prepare(t.Context(), []nodes.Spec{s}), `no image "my/agent:1", and netkvlab pulls none`)
	f.images["my/agent:1"] = nil
	assert.NoError(t, New(e, "v1").Prepare(t.Context(), []nodes.Spec{s}))
}

func TestNamesOfOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	f, e := newFake(t)
	s := specOf(t, "p0")
	f.add("netkvlab.lab.p0", "busybox", nil)
	err := New(e, "v1").Prepare(t.Context(), []nodes.Spec{s})
	assert.ErrorContains(t, err, "netkvlab.lab.p0 is taken by container 000000000000 (image busybox), which netkvlab did not make")
	f.containers[0].Labels = map[string]string{labelLab: "lab"}
	err = New(e, "v1").Prepare(t.Context(), []nodes.Spec{s})
	assert.ErrorContains(t, err, "netkvlab down lab")
	assert.Zero(t, f.loads, "nothing is made before")
}

func TestRemovalGoesByLabelAlone(t *testing.T) {
	t.Parallel()
	f, e := newFake(t)
	f.add("netkvlab.lab.p0", "x", map[string]string{labelLab: "lab"})
	f.add("renamed", "x", map[string]string{labelLab: "lab"})
	f.add("netkvlab.lab.p1", "x", nil)
	f.add("netkvlab.lab2.p0", "x", map[string]string{labelLab: "lab2"})
	f.add("other", "x", map[string]string{"io.netkvlab.other": "lab"})
	labs, err := e.Labs(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []string{"lab", "lab2"}, labs)
	n, err := e.Remove(t.Context(), "lab", false)
	require.NoError(t, err)
	assert.Equal(t, 2, n)
	assert.Equal(t, []string{"netkvlab.lab.p1", "netkvlab.lab2.p0", "other"}, f.names())
	n, err = e.Remove(t.Context(), "lab", false)
	require.NoError(t, err, "what is not there is no error")
	assert.Zero(t, n)
}

func TestContainersOnTheirWayAreWaitedFor(t *testing.T) {
	t.Parallel()
	f, e := newFake(t)
	f.add("netkvlab.lab.p0", "x", map[string]string{labelLab: "lab"})
	f.add("netkvlab.lab.p1", "x", map[string]string{labelLab: "lab"}).from = 1 // shows from the second listing on
	n, err := e.Remove(t.Context(), "lab", true)
	require.NoError(t, err)
	assert.Equal(t, 2, n)
	assert.Empty(t, f.names())
}

func TestStartSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	ktest.Need(t, "root") // folders are given to the agents' user
	f, e := newFake(t)
	r := New(e, "v1")
	s := specOf(t, "p0")
	_, err := r.Start(t.Context(), s)
	require.ErrorContains(t, err, "was not prepared")
	require.NoError(t, r.Prepare(t.Context(), []nodes.Spec{s}))
	_, err = r.Start(t.Context(), s)
	require.ErrorContains(t, err, "it is another process", "the engine's process is not the agent: this test is")
	_, err = r.Start(t.Context(), s)
	require.ErrorContains(t, err, "its name was taken a moment ago")
	f.pid = 0
	s.Node = "p1"
	_, err = r.Start(t.Context(), s)
	require.ErrorContains(t, err, "ended at once with exit code 3: no such flg")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = r.Start(ctx, s)
	assert.ErrorIs(t, err, context.Canceled)
}

func TestContainerMayDoWhatItNeedsAndNoMore(t *testing.T) {
	t.Parallel()
	s := nodes.Spec{Lab: "lab", Node: "p0", Dir: "/run/netkvlab/lab/agents/p0", Args: []string{"x"}, Leash: true}
	c, h := config(s, "ref", "v1"), hostConfig(s, system.Info{})
	assert.Equal(t, "65532:65532", c.User)
	assert.Empty(t, h.CapAdd)
	assert.Equal(t, []string{"x", "--socket", "/run/netkvlab/control.sock", "--node", "p0"}, []string(c.Cmd))
	assert.Contains(t, c.Env, "NETKVLAB_LEASH_FILE=/run/netkvlab/leash")
	assert.Equal(t, []string{"/netkvlab", "kvagent"}, []string(c.Entrypoint))
	assert.Equal(t, []string{"no-new-privileges"}, h.SecurityOpt)

	s.NetAdmin, s.Image, s.Leash = true, "mine", false
	c, h = config(s, "mine", "v1"), hostConfig(s, system.Info{SecurityOptions: []string{"name=seccomp,profile=default", "name=selinux", "name=userns"}})
	assert.Equal(t, "0:0", c.User, "only root keeps a capability that Docker gives")
	assert.Equal(t, []string{"NET_ADMIN"}, []string(h.CapAdd))
	assert.Empty(t, c.Entrypoint, "the image's own")
	assert.NotContains(t, c.Env, "NETKVLAB_LEASH_FILE=/run/netkvlab/leash")
	assert.Equal(t, []string{"no-new-privileges", "label=disable"}, h.SecurityOpt)
	assert.Equal(t, "host", string(h.UsernsMode))
}

func TestLeashIsHeldUntilItsHolderEnds(t *testing.T) {
	t.Parallel()
	s := nodes.Spec{Dir: t.TempDir()}
	held, err := holdLeash(s)
	require.NoError(t, err)
	other, err := os.Open(filepath.Join(s.Dir, leashFile))
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()
	assert.ErrorIs(t, unix.Flock(int(other.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
	require.NoError(t, held.Close()) // as the kernel does when the holder dies
	assert.NoError(t, unix.Flock(int(other.Fd()), unix.LOCK_SH|unix.LOCK_NB))
}
