"""The normative requirements of Sparkplug 3.0.0 by id, each with whom it binds, how strictly, and what it comes to."""

from dataclasses import dataclass
from typing import Final, final

PREFIX: Final = "tck-id-"

# Below a role in brackets: a level and what is required, then the ids that come to that.
_TABLE: Final = """
[payload]
MUST topics are spBv1.0/GROUP/TYPE/NODE[/DEVICE]
    topic-structure topic-structure-namespace-a
MUST a group id is UTF-8 without + / #
    intro-group-id-string intro-group-id-chars topic-structure-namespace-valid-group-id
MUST an edge node id is UTF-8 without + / #
    intro-edge-node-id-string intro-edge-node-id-chars topic-structure-namespace-valid-edge-node-id
MUST a device id is UTF-8 without + / #
    intro-device-id-string intro-device-id-chars topic-structure-namespace-valid-device-id
MUST topics of device messages name the device
    topic-structure-namespace-device-id-associated-message-types
MUST topics of node messages and STATE name no device
    topic-structure-namespace-device-id-non-associated-message-types
MUST NBIRTH has a seq of 0 to 255
    payloads-sequence-num-req-nbirth
MUST times are UTC in ms
    payloads-timestamp-in-UTC payloads-metric-timestamp-in-UTC
MUST every message of a node but NDEATH has a seq
    payloads-sequence-num-always-included
MUST each seq is one more than the last, 0 after 255
    payloads-sequence-num-incrementing
MUST a metric has a name, or an alias that has one
    payloads-name-requirement
MUST an alias means one metric of the node and its devices
    payloads-alias-uniqueness
MUST births give the name to each alias
    payloads-alias-birth-requirement
MUST data and commands use the alias alone
    payloads-alias-data-cmd-requirement
MUST metrics of births and data have a time
    payloads-name-birth-data-requirement
MAY metrics of commands may have a time
    payloads-name-cmd-requirement
MUST a datatype is a number of 0 to 34
    payloads-metric-datatype-value-type payloads-metric-datatype-value
MUST metrics of births have a datatype
    payloads-metric-datatype-req
SHOULD metrics of data and commands have none
    payloads-metric-datatype-not-req
MUST a property set has as many keys as values
    payloads-propertyset-keys-array-size payloads-propertyset-values-array-size
MUST the type of a property is a basic one or a property set's
    payloads-metric-propertyvalue-type-type payloads-metric-propertyvalue-type-value
MUST properties of births have a type
    payloads-metric-propertyvalue-type-req
MUST Quality is an Int32 of 0, 192 or 500
    payloads-propertyset-quality-value-type payloads-propertyset-quality-value-value
MUST a data set counts its columns and has a type for each
    payloads-dataset-column-size payloads-dataset-column-num-headers payloads-dataset-types-num
    payloads-dataset-parameter-type-req
MUST types of columns are numbers of basic types
    payloads-dataset-types-def payloads-dataset-types-type payloads-dataset-types-value
MUST cells hold basic values
    payloads-template-dataset-value
MUST templates are defined in NBIRTH and nowhere else
    payloads-template-definition-nbirth-only payloads-template-definition-nbirth
MUST a template says whether it is a definition
    payloads-template-is-definition payloads-template-definition-is-definition
    payloads-template-is-definition-definition payloads-template-instance-is-definition
    payloads-template-is-definition-instance
MUST a definition has no template_ref
    payloads-template-definition-ref payloads-template-ref-definition
MUST an instance names its definition
    payloads-template-instance-ref payloads-template-ref-instance
MUST an instance has members and parameters of its definition, in births all members
    payloads-template-definition-members payloads-template-definition-parameters payloads-template-instance-members
    payloads-template-instance-members-birth
MAY parameters may have values, and data may leave members out
    payloads-template-definition-parameters-default payloads-template-instance-parameters
    payloads-template-instance-members-data
MUST a template's version is a string
    payloads-template-version
MUST a parameter has a name and a basic type, and in a value's field of that kind its value
    payloads-template-parameter-name-required payloads-template-parameter-name-type
    payloads-template-parameter-value-type payloads-template-parameter-type-value
    payloads-template-parameter-type-req payloads-template-parameter-value
[edge node]
MUST no two edge nodes have the same group and node id
    intro-edge-node-id-uniqueness topic-structure-namespace-unique-edge-node-descriptor
    payloads-nbirth-edge-node-descriptor
SHOULD ids differ in more than the case of letters
    case-sensitivity-sparkplug-ids
SHOULD metric names differ in more than the case of letters
    case-sensitivity-metric-names
MUST CONNECT asks for a clean session (5.0: one that ends with the connection)
    principles-persistence-clean-session-311 principles-persistence-clean-session-50
MUST CONNECT has an NDEATH as its will, QoS 1 and not retained
    message-flow-edge-node-birth-publish-will-message message-flow-edge-node-birth-publish-will-message-topic
    message-flow-edge-node-birth-publish-will-message-payload message-flow-edge-node-birth-publish-will-message-qos
    message-flow-edge-node-birth-publish-will-message-will-retained payloads-ndeath-will-message
    payloads-ndeath-will-message-qos payloads-ndeath-will-message-retain
MUST the bdSeq of the will is one more than that of the last CONNECT, 0 after 255
    message-flow-edge-node-birth-publish-will-message-payload-bdSeq topics-nbirth-bdseq-increment
MUST births are sent within a session
    message-flow-edge-node-birth-publish-connect
MUST commands for the node are subscribed to at QoS 1
    message-flow-edge-node-ncmd-subscribe
MUST no birth before the node's own primary host says with a true that is not stale that it is online
    message-flow-edge-node-birth-publish-phid-wait message-flow-edge-node-birth-publish-phid-wait-id
    message-flow-edge-node-birth-publish-phid-wait-online message-flow-edge-node-birth-publish-phid-wait-timestamp
    operational-behavior-edge-node-birth-sequence-wait
MUST when the primary host goes offline the node says NDEATH and leaves the server
    message-flow-edge-node-birth-publish-phid-offline operational-behavior-edge-node-termination-host-offline
MUST and goes to the next of its servers
    operational-behavior-edge-node-termination-host-offline-reconnect
    operational-behavior-primary-application-state-with-multiple-servers-walk
MUST an offline older than the last online is ignored
    operational-behavior-edge-node-termination-host-offline-timestamp
MUST a node is connected to one server at a time
    operational-behavior-primary-application-state-with-multiple-servers-single-server
MUST a node that leaves on purpose says NDEATH first
    operational-behavior-edge-node-intentional-disconnect-ndeath
    payloads-ndeath-will-message-publisher-disconnect-mqtt311
SHOULD and does so whatever its version of MQTT
    payloads-ndeath-will-message-publisher
MUST its DISCONNECT over MQTT 5.0 has the reason 0x04
    payloads-ndeath-will-message-publisher-disconnect-mqtt50
MAY DISCONNECT may follow
    operational-behavior-edge-node-intentional-disconnect-packet
MUST NBIRTH goes to its topic, at QoS 0, not retained
    topics-nbirth-topic topics-nbirth-mqtt message-flow-edge-node-birth-publish-nbirth-topic
    message-flow-edge-node-birth-publish-nbirth-qos message-flow-edge-node-birth-publish-nbirth-retained
    payloads-nbirth-qos payloads-nbirth-retain
MUST NBIRTH is a Sparkplug payload
    message-flow-edge-node-birth-publish-nbirth-payload
MUST the seq of NBIRTH is 0
    topics-nbirth-seq-num
MUST NBIRTH has a seq of 0 to 255
    message-flow-edge-node-birth-publish-nbirth-payload-seq payloads-nbirth-seq
MUST NBIRTH has the time at which it is sent
    topics-nbirth-timestamp payloads-nbirth-timestamp
MUST NBIRTH names every metric of which the node later reports
    topics-nbirth-metric-reqs operational-behavior-data-publish-nbirth
MUST each metric of NBIRTH has name, datatype and value
    topics-nbirth-metrics
MUST a metric of NBIRTH has a value or is null
    operational-behavior-data-publish-nbirth-values
MUST NBIRTH defines every template in use
    topics-nbirth-templates
MUST NBIRTH has a bdSeq
    topics-nbirth-bdseq-included payloads-nbirth-bdseq
MUST the bdSeq of NBIRTH is an Int64 and that of the will, in rebirths too
    topics-nbirth-bdseq-matching message-flow-edge-node-birth-publish-nbirth-payload-bdSeq
    payloads-nbirth-bdseq-repeat
MUST NBIRTH has the Boolean Node Control/Rebirth, false, without an alias
    topics-nbirth-rebirth-metric payloads-nbirth-rebirth-req operational-behavior-data-commands-rebirth-name
    operational-behavior-data-commands-rebirth-name-aliases operational-behavior-data-commands-rebirth-datatype
    operational-behavior-data-commands-rebirth-value
MUST asked for a rebirth, a node stops its data and sends all births, with the bdSeq of its will
    operational-behavior-data-commands-rebirth-action-1 operational-behavior-data-commands-rebirth-action-2
    operational-behavior-data-commands-rebirth-action-3
MUST NDATA goes to its topic, at QoS 0, not retained
    topics-ndata-topic topics-ndata-mqtt payloads-ndata-qos payloads-ndata-retain
MUST NDATA has the next seq
    topics-ndata-seq-num payloads-ndata-seq payloads-ndata-seq-inc
MUST NDATA has the time at which it is sent
    topics-ndata-timestamp payloads-ndata-timestamp
MUST NDATA holds the metrics that changed
    topics-ndata-payload
MUST no NDATA before the births
    payloads-ndata-order
MUST values of a metric that are not historical are in the order of their times
    operational-behavior-data-publish-nbirth-order
SHOULD values are sent when they change, not by a clock
    principles-rbe-recommended operational-behavior-data-publish-nbirth-change
MUST NDEATH goes to its topic
    topics-ndeath-topic
MUST NDEATH holds bdSeq alone
    topics-ndeath-payload
MUST NDEATH has no seq
    topics-ndeath-seq payloads-ndeath-seq
MUST NDEATH has the bdSeq of its NBIRTH
    payloads-ndeath-bdseq
[device]
MUST device ids differ within an edge node
    topic-structure-namespace-unique-device-id
MAY a device id may be used under several edge nodes
    topic-structure-namespace-duplicate-device-id-across-edge-node
MUST commands for the device are subscribed to at QoS 1
    message-flow-device-dcmd-subscribe
MUST DBIRTH goes to its topic, at QoS 0, not retained
    topics-dbirth-topic topics-dbirth-mqtt message-flow-device-birth-publish-dbirth-topic
    message-flow-device-birth-publish-dbirth-qos message-flow-device-birth-publish-dbirth-retained
    payloads-dbirth-qos payloads-dbirth-retain
MUST DBIRTH is a Sparkplug payload
    message-flow-device-birth-publish-dbirth-payload
MUST DBIRTH comes after the NBIRTH of its session and has its group and node
    message-flow-device-birth-publish-nbirth-wait message-flow-device-birth-publish-dbirth-match-edge-node-topic
MUST DBIRTHs follow the NBIRTH before any data
    payloads-dbirth-order
MUST DBIRTH has the next seq
    topics-dbirth-seq message-flow-device-birth-publish-dbirth-payload-seq payloads-dbirth-seq
    payloads-dbirth-seq-inc
MUST DBIRTH has the time at which it is sent
    topics-dbirth-timestamp payloads-dbirth-timestamp
MUST DBIRTH names every metric of which the device later reports
    topics-dbirth-metric-reqs operational-behavior-data-publish-dbirth
MUST each metric of DBIRTH has name, datatype and value
    topics-dbirth-metrics
MUST a metric of DBIRTH has a value or is null
    operational-behavior-data-publish-dbirth-values
MUST DDATA goes to its topic, at QoS 0, not retained
    topics-ddata-topic topics-ddata-mqtt payloads-ddata-qos payloads-ddata-retain
MUST DDATA has the next seq
    topics-ddata-seq-num payloads-ddata-seq payloads-ddata-seq-inc
MUST DDATA has the time at which it is sent
    topics-ddata-timestamp payloads-ddata-timestamp
MUST DDATA holds the metrics that changed
    topics-ddata-payload
MUST no DDATA before the births
    payloads-ddata-order
MUST values of a metric that are not historical are in the order of their times
    operational-behavior-data-publish-dbirth-order
SHOULD values are sent when they change
    operational-behavior-data-publish-dbirth-change
MUST a device that is lost gets a DDEATH
    operational-behavior-device-ddeath
MUST DDEATH goes to its topic, at QoS 0, not retained
    topics-ddeath-topic topics-ddeath-mqtt
MUST DDEATH has the next seq
    topics-ddeath-seq-num payloads-ddeath-seq payloads-ddeath-seq-inc payloads-ddeath-seq-number
MUST DDEATH has the time at which it is sent
    payloads-ddeath-timestamp
[edge node, host application]
MUST the first message of a session is a birth
    principles-birth-certificates-order
MUST with several servers STATE is published, and subscribed to, on each
    operational-behavior-primary-application-state-with-multiple-servers-state-subs
[host application]
MUST a host says by STATE whether it is online
    intro-sparkplug-host-state components-ph-state conformance-primary-host
MUST CONNECT asks for a clean session (5.0: one that ends with the connection)
    message-flow-phid-sparkplug-clean-session-311 message-flow-phid-sparkplug-clean-session-50
MUST CONNECT has an offline STATE of now as its will, QoS 1 and retained
    host-topic-phid-death-required host-topic-phid-death-payload-timestamp-connect
    operational-behavior-host-application-connect-will operational-behavior-host-application-connect-will-topic
    operational-behavior-host-application-connect-will-payload
    operational-behavior-host-application-connect-will-qos
    operational-behavior-host-application-connect-will-retained payloads-state-will-message
    payloads-state-will-message-qos payloads-state-will-message-retain payloads-state-will-message-payload
MUST a host subscribes to its own STATE and to data before it says that it is online
    host-topic-phid-birth-sub-required message-flow-phid-sparkplug-subscription payloads-state-subscribe
MUST an online STATE is the first that a host publishes
    host-topic-phid-birth-message host-topic-phid-birth-required message-flow-phid-sparkplug-state-publish
    operational-behavior-host-application-connect-birth payloads-state-birth
    operational-behavior-primary-application-state-with-multiple-servers-state
MUST an online STATE goes to spBv1.0/STATE/HOST at QoS 1, retained, with the time of the will
    host-topic-phid-birth-qos host-topic-phid-birth-retain host-topic-phid-birth-topic host-topic-phid-birth-payload
    host-topic-phid-birth-payload-timestamp message-flow-phid-sparkplug-state-publish-payload
    message-flow-phid-sparkplug-state-publish-payload-timestamp
    operational-behavior-host-application-connect-birth-topic
    operational-behavior-host-application-connect-birth-payload
    operational-behavior-host-application-connect-birth-qos
    operational-behavior-host-application-connect-birth-retained payloads-state-birth-payload
MUST an offline STATE goes to spBv1.0/STATE/HOST at QoS 1, retained
    host-topic-phid-death-qos host-topic-phid-death-retain host-topic-phid-death-topic host-topic-phid-death-payload
    operational-behavior-host-application-death-topic operational-behavior-host-application-death-payload
    operational-behavior-host-application-death-qos operational-behavior-host-application-death-retained
MUST a host that leaves on purpose says offline with the time of now
    host-topic-phid-death-payload-timestamp-disconnect-clean
    host-topic-phid-death-payload-timestamp-disconnect-with-no-disconnect-packet
    operational-behavior-host-application-termination
MAY DISCONNECT may follow
    operational-behavior-host-application-disconnect-intentional
MUST a host that reads that it is offline says again that it is online
    message-flow-hid-sparkplug-state-message-delivered
MUST each server has a STATE time of its own
    operational-behavior-host-application-multi-server-timestamp
MUST no two hosts have the same id
    operational-behavior-host-application-host-id
MUST NDEATH makes the node and its devices offline and stale at the host's time
    operational-behavior-edge-node-termination-host-action-ndeath-node-offline
    operational-behavior-edge-node-termination-host-action-ndeath-node-tags-stale
    operational-behavior-edge-node-termination-host-action-ndeath-devices-offline
    operational-behavior-edge-node-termination-host-action-ndeath-devices-tags-stale
MUST DDEATH makes the device offline and stale at the time that it has
    operational-behavior-edge-node-termination-host-action-ddeath-devices-offline
    operational-behavior-edge-node-termination-host-action-ddeath-devices-tags-stale
SHOULD the reorder timeout can be set
    operational-behavior-host-reordering-param
MUST a missing message is waited for, then a rebirth is asked for, unless it came
    operational-behavior-host-reordering-start operational-behavior-host-reordering-rebirth
    operational-behavior-host-reordering-success
MUST NCMD goes to its topic, at QoS 0, not retained
    topics-ncmd-topic topics-ncmd-mqtt payloads-ncmd-qos payloads-ncmd-retain
    operational-behavior-data-commands-ncmd-verb
MUST DCMD goes to its topic, at QoS 0, not retained
    topics-dcmd-topic topics-dcmd-mqtt payloads-dcmd-qos payloads-dcmd-retain
    operational-behavior-data-commands-dcmd-verb
MUST commands have the time at which they are sent
    topics-ncmd-timestamp payloads-ncmd-timestamp topics-dcmd-timestamp payloads-dcmd-timestamp
MUST commands have no seq
    payloads-ncmd-seq payloads-dcmd-seq
MUST commands hold the metrics to write
    topics-ncmd-payload topics-dcmd-payload
MUST a rebirth is asked for by an NCMD with Node Control/Rebirth = true
    operational-behavior-data-commands-ncmd-rebirth-verb operational-behavior-data-commands-ncmd-rebirth-name
    operational-behavior-data-commands-ncmd-rebirth-value
SHOULD commands name metrics of the birth
    operational-behavior-data-commands-ncmd-metric-name operational-behavior-data-commands-dcmd-metric-name
MUST commands have values of the metric's type
    operational-behavior-data-commands-ncmd-metric-value operational-behavior-data-commands-dcmd-metric-value
[conformant broker]
MUST publishing and subscribing at QoS 0 and 1
    conformance-mqtt-qos0 conformance-mqtt-qos1
MUST wills, with QoS 1 and retained
    conformance-mqtt-will-messages
MUST retained messages
    conformance-mqtt-retained
[aware broker]
MUST all that a conformant broker does
    conformance-mqtt-aware-basic
MUST the latest births are kept
    conformance-mqtt-aware-store
MUST and are to be had, retained, below $sparkplug/certificates
    conformance-mqtt-aware-nbirth-mqtt-topic conformance-mqtt-aware-nbirth-mqtt-retain
    conformance-mqtt-aware-dbirth-mqtt-topic conformance-mqtt-aware-dbirth-mqtt-retain
MAY an NDEATH may get the time of its delivery
    conformance-mqtt-aware-ndeath-timestamp
"""


@final
@dataclass(frozen=True, slots=True)
class Requirement:
    """``id`` without the prefix that all have; ``level`` is MUST, SHOULD or MAY, also where the text says NOT."""

    id: str
    role: str
    level: str
    what: str


def _read() -> dict[str, Requirement]:
    found: dict[str, Requirement] = {}
    role = level = what = ""
    for line in _TABLE.strip().splitlines():
        if line.startswith("["):
            role = line.strip("[]")
        elif line.startswith(" "):
            found.update({id: Requirement(id, role, level, what) for id in line.split()})
        else:
            level, _, what = line.partition(" ")
    return found


REQUIREMENTS: Final = _read()
