package results

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

func fakeHost() fstest.MapFS {
	return fstest.MapFS{
		"proc/sys/kernel/osrelease": file("6.18.0-netkv\n"),
		"proc/cpuinfo": file("processor\t: 0\nmodel name\t: Test CPU @ 2.0GHz\nflags\t\t: fpu\n\n" +
			"processor\t: 1\nmodel name\t: Test CPU @ 2.0GHz\n"),
		"proc/meminfo": file("MemTotal:        8000000 kB\nMemFree:         1 kB\n"),
		"proc/sys/net/ipv4/tcp_available_congestion_control": file("reno cubic\n"),
		"proc/sys/net/ipv4/tcp_congestion_control":           file("cubic\n"),
		"proc/sys/net/ipv4/tcp_rmem":                         file("4096\t131072\t6291456\n"),
	}
}

func TestHostIsReadFromProc(t *testing.T) {
	t.Parallel()
	h, err := ReadHost(fakeHost(), "v1", map[string]string{"docker": "20.10.24"})
	require.NoError(t, err)
	assert.Equal(t, "6.18.0-netkv", h.Kernel)
	assert.Equal(t, "Test CPU @ 2.0GHz", h.CPUModel)
	assert.Equal(t, 2, h.CPUs)
	assert.Equal(t, int64(8192000000), h.MemoryBytes)
	assert.Equal(t, []string{"reno", "cubic"}, h.CongestionControls)
	assert.Equal(t, "cubic", h.CongestionControl)
	assert.Equal(t, map[string]string{"net.ipv4.tcp_rmem": "4096 131072 6291456"}, h.Sysctls)
	assert.Equal(t, "20.10.24", h.Runtimes["docker"])
	assert.Positive(t, h.CPUsUsable)
}

func TestHostWithoutModelNameOrCongestionList(t *testing.T) {
	t.Parallel()
	root := fakeHost()
	root["proc/cpuinfo"] = file("processor\t: 0\nBogoMIPS\t: 50.00\n")
	delete(root, "proc/sys/net/ipv4/tcp_available_congestion_control")
	h, err := ReadHost(root, "v1", nil)
	require.NoError(t, err)
	assert.Empty(t, h.CPUModel)
	assert.NotNil(t, h.CongestionControls, "an empty list is [], not null")
	assert.NotNil(t, h.Runtimes)
}

func TestHostWithoutProcIsAnError(t *testing.T) {
	t.Parallel()
	_, err := ReadHost(fstest.MapFS{}, "v1", nil)
	require.ErrorIs(t, err, fs.ErrNotExist)
	root := fakeHost()
	root["proc/meminfo"] = file("MemTotal: lots\n")
	_, err = ReadHost(root, "v1", nil)
	require.ErrorContains(t, err, "MemTotal")
}
