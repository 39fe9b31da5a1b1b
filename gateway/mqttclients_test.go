package gateway

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/hone-go/hone/internal/testrun"
)

// pahoProgram publishes with Paho's client for Python: port, version, QoS, number of messages, name.
const pahoProgram = `
import sys
import paho.mqtt.client as mqtt
from paho.mqtt.properties import Properties
from paho.mqtt.packettypes import PacketTypes
port, version, qos, n, name = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
if version == 5:
    c = mqtt.Client(name, protocol=mqtt.MQTTv5)
    lasts = Properties(PacketTypes.CONNECT)
    lasts.SessionExpiryInterval = 3600
    c.connect("127.0.0.1", port, clean_start=False, properties=lasts)
else:
    c = mqtt.Client(name, clean_session=False, protocol=mqtt.MQTTv311)
    c.connect("127.0.0.1", port)
c.loop_start()
sent = [c.publish("foreign", str(i), qos) for i in range(n)]
for s in sent:
    s.wait_for_publish(30)
    assert s.is_published()
c.disconnect()
c.loop_stop()
`

// mqttjsProgram does the same with MQTT.js.
const mqttjsProgram = `
const [port, version, qos, n, name, url] = process.argv.slice(1)
const c = require('mqtt').connect(url, { clientId: name, protocolVersion: +version, clean: false,
  properties: +version === 5 ? { sessionExpiryInterval: 3600 } : undefined })
let left = +n
for (let i = 0; i < +n; i++) {
  c.publish('foreign', String(i), { qos: +qos }, (err) => {
    if (err) throw err
    if (--left === 0) c.end()
  })
}
c.on('error', (err) => { throw err })
`

// foreign are clients that others have written: they get a port, a version, a QoS, the number of messages and a name.
var foreign = []struct {
	name, needs, pack string
	command           func(port, version, qos, n, name string) *exec.Cmd
}{
	{"mosquitto_pub", "/usr/bin/mosquitto_pub", "mosquitto-clients", func(port, version, qos, n, name string) *exec.Cmd {
		cmd := exec.Command("/usr/bin/mosquitto_pub", "-p", port, "-V", map[string]string{"4": "mqttv311", "5": "mqttv5"}[version], "-q", qos, "-i", name, "-t", "foreign", "-l")
		cmd.Stdin = strings.NewReader(countUp(0, 49))
		return cmd
	}},
	{"Paho for Python", "/usr/lib/python3/dist-packages/paho/mqtt", "python3-paho-mqtt", func(port, version, qos, n, name string) *exec.Cmd {
		return exec.Command("/usr/bin/python3", "-c", pahoProgram, port, version, qos, n, name)
	}},
	{"MQTT.js", "/usr/share/nodejs/mqtt", "node-mqtt", func(port, version, qos, n, name string) *exec.Cmd {
		return mqttjs(port, version, qos, n, name, "mqtt://127.0.0.1:"+port)
	}},
	{overWebSocket, "/usr/share/nodejs/mqtt", "node-mqtt", func(port, version, qos, n, name string) *exec.Cmd {
		return mqttjs(port, version, qos, n, name, "ws://127.0.0.1:"+port+"/mqtt")
	}},
}

const overWebSocket = "MQTT.js over WebSocket"

func mqttjs(args ...string) *exec.Cmd {
	cmd := exec.Command("node", append([]string{"-e", mqttjsProgram, "--"}, args...)...)
	cmd.Env = append(os.Environ(), "NODE_PATH=/usr/share/nodejs")
	return cmd
}

// TestMQTTClients: clients that others have written publish, unchanged, at each QoS in each version.
func TestMQTTClients(t *testing.T) {
	for _, f := range foreign {
		t.Run(f.name, func(t *testing.T) {
			if _, err := os.Stat(f.needs); err != nil {
				testrun.Lacks(t, f.pack+" is missing; make deps installs it")
			}
			t.Parallel()
			log := newGate()
			s := &Server{Log: log}
			addr := mqttDoorOf(t, s)
			if f.name == overWebSocket {
				addr = strings.TrimPrefix(posts(t, s).base, "http://")
			}
			_, port, err := net.SplitHostPort(addr)
			must(t, err)
			var want []string
			for _, version := range []string{"4", "5"} {
				for qos := range 3 {
					name := fmt.Sprintf("v%s-qos%d", version, qos)
					cmd := f.command(port, version, fmt.Sprint(qos), "50", name)
					var out bytes.Buffer
					cmd.Stdout, cmd.Stderr = &out, &out
					must(t, cmd.Start())
					defer context.AfterFunc(soon(t), func() { cmd.Process.Kill() })()
					if err := cmd.Wait(); err != nil || out.Len() > 0 {
						t.Errorf("%s: %v %s", name, err, out.String())
					}
					for i := range 50 {
						want = append(want, fmt.Sprintf("%s %d %d topic=foreign", name, i+1, i))
					}
				}
			}
			waitFor(t, "all to be stored", func() bool { return len(shown(t, log)) >= len(want) })
			if got := strings.Join(shown(t, log), "\n"); got != strings.Join(want, "\n") {
				t.Errorf("stored\n%s", got)
			}
		})
	}
}
