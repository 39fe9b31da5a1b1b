package machine

import (
	"slices"
	"strings"
)

// virtual returns what is between the system and the hardware: none, hypervisor, container, or both with a
// comma between; empty: not known.
func (h *host) virtual() string {
	below := h.hypervisor()
	switch {
	case below == "", !h.inContainer():
		return below
	case below == "none":
		return "container"
	}
	return below + ", container"
}

// hypervisor returns hypervisor, none, or empty: ARM machines with ACPI do not tell.
func (h *host) hypervisor() string {
	if h.text("proc/cpuinfo") == "" {
		return ""
	}
	switch flags := h.cpuinfo("flags"); {
	case slices.Contains(strings.Fields(flags), "hypervisor"), h.exists("sys/hypervisor/type"), h.exists("proc/device-tree/hypervisor"),
		strings.Contains(h.text("proc/device-tree/compatible"), "dummy-virt"):
		return "hypervisor"
	case flags != "", h.exists("proc/device-tree/compatible"): // x86 sets the flag in every guest
		return "none"
	}
	return ""
}

// inContainer looks for traces of common container runtimes. A disk image made from a
// container has them, too, but there kernel threads are visible.
func (h *host) inContainer() bool {
	traces := h.exists(".dockerenv") || h.exists("run/.containerenv") || h.text("run/systemd/container") != ""
	if traces && h.text("proc/2/comm") != "kthreadd" {
		return true
	}
	for _, file := range []string{"proc/1/cgroup", "proc/self/cgroup"} {
		groups := h.text(file)
		for _, mark := range []string{"/docker/", "/docker-", "/kubepods", "/lxc", "/libpod", "/containerd", "cri-containerd"} {
			if strings.Contains(groups, mark) {
				return true
			}
		}
	}
	return false
}
