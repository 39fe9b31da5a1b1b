package machine

import (
	"slices"
	"strings"
)

// virtual returns what is between the system and the hardware: none, a hypervisor's name,
// container, or both with a comma between.
func (h *host) virtual() string {
	below := h.hypervisor()
	switch {
	case below == "":
		return h.told.virtual
	case !h.inContainer():
		return below
	case below == "none":
		return "container"
	}
	return below + ", container"
}

// makers maps the product names of hypervisors, and of clouds that use them.
var makers = []struct{ name, hypervisor string }{
	{"vmware", "vmware"},
	{"innotek", "virtualbox"},
	{"virtualbox", "virtualbox"},
	{"microsoft corporation virtual machine", "hyper-v"},
	{"parallels", "parallels"},
	{"xen", "xen"},
	{"bhyve", "bhyve"},
	{"qemu", "kvm"},
	{"kvm", "kvm"},
	{"openstack", "kvm"},
	{"amazon ec2", "kvm"},
	{"google", "kvm"},
	{"digitalocean", "kvm"},
	{"hetzner", "kvm"},
	{"alibaba", "kvm"},
}

// hypervisor returns its name, "hypervisor" if it has none, "none", or empty if not
// known.
func (h *host) hypervisor() string {
	if h.text("proc/cpuinfo") == "" {
		return ""
	}
	flags := h.cpuinfo("flags")
	guest := slices.Contains(strings.Fields(flags), "hypervisor")
	if flags != "" && !guest { // x86 always sets the flag in a guest
		return "none"
	}
	if strings.Contains(strings.ToLower(h.kernel()), "microsoft") {
		return "hyper-v"
	}
	if name := h.makersHypervisor(); name != "" {
		return name
	}
	switch {
	case h.text("sys/hypervisor/type") == "xen":
		return "xen"
	case strings.Contains(h.text("sys/devices/system/clocksource/clocksource0/available_clocksource"), "kvm-clock"),
		strings.Contains(h.text("proc/device-tree/hypervisor/compatible"), "kvm"),
		strings.Contains(h.text("proc/device-tree/compatible"), "dummy-virt"):
		return "kvm"
	case guest, h.exists("proc/device-tree/hypervisor"):
		return "hypervisor"
	case h.exists("proc/device-tree/compatible"), h.text(makerPath) != "":
		return "none"
	}
	return ""
}

const makerPath = "sys/class/dmi/id/sys_vendor"

// makersHypervisor goes by the machine's vendor and product name.
func (h *host) makersHypervisor() string {
	machine := strings.ToLower(h.text(makerPath) + " " + h.text("sys/class/dmi/id/product_name"))
	if strings.Contains(machine, "metal") {
		return ""
	}
	for _, m := range makers {
		if strings.Contains(machine, m.name) {
			return m.hypervisor
		}
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
