//go:build linux

package kernel

import (
	"testing"

	"github.com/stretchr/testify/assert"
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
		{"a private copy beside options with a space", "90 80 254:0 / / rw - ext4 /dev/vda rw\n94 90 0:60 / /mnt/c rw - 9p drvfs rw,aname=drvfs;path=C:\\Program Files\n", root, false},
	} {
		assert.Equal(t, tt.want, visible(tt.own, tt.first), tt.name)
	}
}
