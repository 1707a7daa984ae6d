"""The only door of a server: nginx with TLS before the SuperLink, for what nodes need and no more.

Flower's SuperLink serves three interfaces on one port: for nodes, for people who start runs and
register nodes, and for its own processes. The second asks nobody who he is. So the SuperLink
listens on the loopback address only, and the proxy passes on the paths below: each by its full
name and rewritten to that name, so that no way of spelling a path reaches another one.
"""

from __future__ import annotations

from pathlib import Path

# What a registered node calls. Registering and leaving for good are for the server's keeper.
FLEET_PATHS = (
    "activate-node",
    "deactivate-node",
    "send-node-heartbeat",
    "pull-messages",
    "push-messages",
    "pull-object",
    "push-object",
    "confirm-message-received",
    "get-run",
    "get-fab",
)
LARGEST_BODY = "16m"  # Flower cuts arrays into pieces of 5 MiB
# Of one address. A node asks every three seconds, and in a round for its letters and pieces of
# them, one after the other; a hundred nodes may share the address of their building.
REQUESTS, BURST, CONNECTIONS = 200, 1000, 256

_SITE = """\
# Written by `catchment flower proxy`. Nodes reach the SuperLink through here and in no other way.
upstream superlink {{
    server 127.0.0.1:{superlink};
    keepalive 16;
}}
# Who asks too often is told to come again, as if the SuperLink were away: nodes then do.
limit_req_zone  $binary_remote_addr zone=catchment_requests:10m rate={requests}r/s;
limit_conn_zone $binary_remote_addr zone=catchment_connections:10m;
server {{
    listen {listen} ssl;
    ssl_certificate     {certificate};
    ssl_certificate_key {key};
    ssl_protocols       TLSv1.3;
{mutual}    server_tokens off;
    client_max_body_size {largest};
    limit_req  zone=catchment_requests burst={burst} nodelay;
    limit_conn catchment_connections {connections};
    limit_req_status  503;
    limit_conn_status 503;
    # Nobody holds a place by sending slowly.
    client_header_timeout 20s;
    client_body_timeout   60s;
    # Messages pass through; nothing of them is written to this machine's disk by the proxy.
    proxy_request_buffering off;
    proxy_buffering off;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_read_timeout 300s;
    # Flower asks for TLS before it checks nodes, on the loopback address as anywhere.
    proxy_ssl_trusted_certificate {authority};
    proxy_ssl_verify on;
    proxy_ssl_name localhost;
    proxy_ssl_protocols TLSv1.3;

{locations}
    # A node tries again after 503, and gives up after 502: the SuperLink may be restarting.
    error_page 502 504 =503 @away;
    location @away {{ return 503; }}
    location / {{ return 404; }}
}}
"""
_LOCATION = """\
    location = /v1/fleet/{path} {{
        limit_except POST {{ deny all; }}
        proxy_pass https://superlink/v1/fleet/{path};
    }}
"""
_MUTUAL = """\
    ssl_client_certificate {clients};
    ssl_verify_client on;
"""
_WHOLE = """\
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {errors} warn;
events {{ worker_connections 4096; }}
http {{
log_format counts '$msec $status $request_method $uri $request_length $bytes_sent $connection';
access_log {accesses};
client_body_temp_path {folder}/nginx-body;
proxy_temp_path {folder}/nginx-proxy;
fastcgi_temp_path {folder}/nginx-fastcgi;
uwsgi_temp_path {folder}/nginx-uwsgi;
scgi_temp_path {folder}/nginx-scgi;
{site}}}
"""


def site(
    keys: str | Path,
    *,
    superlink: int = 8000,
    listen: str = "8443",
    client_authority: str | Path | None = None,
    requests: int = REQUESTS,
    burst: int = BURST,
    connections: int = CONNECTIONS,
) -> str:
    """Return the part of an nginx configuration that Debian keeps in sites-available.

    Parameters
    ----------
    keys
        Folder of the server's keys, as `make_server` made them.
    superlink
        Port of the SuperLink on the loopback address.
    listen
        Port, or address and port, for nodes.
    client_authority
        Certificate of an authority: whoever calls must then show a certificate that it signed.
    requests, burst, connections
        Requests a second of one address, how many it may be ahead of that, and requests of it that
        are answered at a time.

    >>> print(site("/srv/fleet/server").splitlines()[9])
        listen 8443 ssl;
    >>> site("/srv; root /;")
    Traceback (most recent call last):
    ValueError: the path '/srv; root /;' would break the configuration; use one without spaces...
    """
    folder = _plain(keys)
    return _SITE.format(
        superlink=int(superlink),
        listen=_plain(listen),
        certificate=f"{folder}/server.crt",
        key=f"{folder}/server.key",
        authority=f"{folder}/ca.crt",
        mutual=_MUTUAL.format(clients=_plain(client_authority)) if client_authority else "",
        largest=LARGEST_BODY,
        requests=int(requests),
        burst=int(burst),
        connections=int(connections),
        locations="".join(_LOCATION.format(path=path) for path in FLEET_PATHS).rstrip(),
    )


def whole(site_text: str, folder: str | Path, *, logs: bool = True) -> str:
    """Return a configuration with which nginx runs by itself and writes into one folder only.

    Parameters
    ----------
    logs
        Whether the folder holds logs, too, which grow. If not, errors go to the standard error
        stream, for systemd or a container to keep, and accesses are not noted.

    >>> whole("", "/srv/fleet").splitlines()[2]
    'pid /srv/fleet/nginx.pid;'
    """
    here = _plain(folder)
    return _WHOLE.format(
        folder=here,
        site=site_text,
        errors=f"{here}/nginx-error.log" if logs else "stderr",
        accesses=f"{here}/nginx-access.log counts" if logs else "off",
    )


def _plain(path: str | Path) -> str:
    """Return a path as nginx reads it; ValueError if it would mean something else there."""
    text = str(path)
    if not text or any(c.isspace() or c in ";{}\"'$#\\" for c in text):
        raise ValueError(
            f"the path {text!r} would break the configuration; use one without spaces, quotes, "
            "';', '$', '#', '\\' and braces"
        )
    return text
