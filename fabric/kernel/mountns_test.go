//go:build linux

package kernel

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMountsThatTheFirstProcessDoesNotSee(t *testing.T) {
	t.Parallel()
	const (
		root   = "26 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
		netns  = "41 26 254:0 /run/netns /run/netns rw,relatime shared:1 - ext4 /dev/vda rw\n"
		shared = "26 1 254:0 / / rw,relatime shared:7 - ext4 /dev/vda rw\n"
		run    = "30 26 0:24 / /run rw,nosuid shared:9 - tmpfs tmpfs rw\n"
	)
	for _, tt := range []struct {
		name       string
		own, first string
		want       bool
	}{
		{"one mount namespace", root + netns, root + netns, true},
		{"one mount namespace with private mounts", root, root, true},
		{"a private copy", "90 80 254:0 / / rw - ext4 /dev/vda rw\n91 90 254:0 /run/netns /run/netns rw - ext4 /dev/vda rw\n", root + netns, false},
		{"a private copy, nothing mounted yet", "90 80 254:0 / / rw - ext4 /dev/vda rw\n", root, false},
		{"a slave, as under ip netns exec", "91 90 254:0 /run/netns /run/netns rw master:1 - ext4 /dev/vda rw\n", root + netns, false},
		{"a copy that passes mounts on", "90 80 254:0 / / rw - ext4 /dev/vda rw\n91 90 254:0 /run/netns /run/netns rw shared:1 - ext4 /dev/vda rw\n", root + netns, true},
		{"a copy that passes on, nothing mounted yet", "90 80 254:0 / / rw shared:7 - ext4 /dev/vda rw\n92 90 0:24 / /run rw shared:9 - tmpfs tmpfs rw\n", shared + run, true},
		{"something mounted over it", "90 80 254:0 / / rw shared:7 - ext4 /dev/vda rw\n93 90 0:50 / /run rw - tmpfs none rw\n", shared + run, false},
		{"shared, with another group", "90 80 254:0 / / rw shared:70 - ext4 /dev/vda rw\n", shared, false},
		{"a root folder that is no mount", "", root, true},
		{"another folder of a similar name", root + "91 26 254:0 / /run/netnsx rw - ext4 /dev/vda rw\n", root, true},
		{"a torn line", root + "91 26", root, true},
	} {
		dir := t.TempDir()
		for process, mounts := range map[string]string{"self": tt.own, "1": tt.first} {
			require.NoError(t, os.Mkdir(filepath.Join(dir, process), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(dir, process, "mountinfo"), []byte(mounts), 0o644))
		}
		proc, err := procfs.NewFS(dir)
		require.NoError(t, err)
		assert.Equal(t, tt.want, visible(proc), tt.name)
	}
}
