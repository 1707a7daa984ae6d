# For the other packages and the tests; may change without notice.
from catchment_fleet.deploy.commands import (
    CONNECTION as CONNECTION,
    QUIET as QUIET,
    Settings as Settings,
    flwr as flwr,
    node_command as node_command,
    node_settings as node_settings,
    pairs as pairs,
    register_nodes as register_nodes,
    search_path as search_path,
    superlink_command as superlink_command,
    superlink_home as superlink_home,
    try_flwr as try_flwr,
    write_connection as write_connection,
)
from catchment_fleet.deploy.keys import (
    admit as admit,
    make_authority as make_authority,
    make_keys as make_keys,
    make_node as make_node,
    make_server as make_server,
)
from catchment_fleet.deploy.launcher import (
    Chosen as Chosen,
    OwnExecutor as OwnExecutor,
    app_hash as app_hash,
    exchange as exchange,
    refuse_unknown_flower as refuse_unknown_flower,
)

__all__ = []
