// SPDX-License-Identifier: Apache-2.0
// Elements made of data.  Text goes in as text only: names come from programs we know nothing of.

export type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | undefined>;

/** el("p", {class: "x"}, "text", node).  A false or missing attribute is left out. */
export function el<K extends keyof HTMLElementTagNameMap>(
    tag: K,
    attributes: Attributes = {},
    ...children: Child[]
): HTMLElementTagNameMap[K] {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
        if (value === undefined || value === false) continue;
        made.setAttribute(name, value === true ? "" : String(value));
    }
    for (const child of children) if (child) made.append(child);
    return made;
}

export function button(
    text: string,
    act: () => void,
    attributes: Attributes = {},
): HTMLButtonElement {
    const made = el("button", { type: "button", ...attributes }, text);
    made.addEventListener("click", act);
    return made;
}

/** A name that may be of any script and direction, kept from disturbing what stands around it. */
export function foreign(text: string, attributes: Attributes = {}): HTMLElement {
    return el("bdi", { dir: "auto", ...attributes }, text);
}

/** A choice of which exactly one holds: buttons in a group. */
export class Choice<T extends string> {
    readonly root: HTMLElement;
    private readonly buttons = new Map<T, HTMLButtonElement>();

    constructor(
        label: string,
        options: [T, string][],
        public value: T,
        private readonly changed: (value: T) => void,
    ) {
        this.root = el("div", { class: "choice", role: "group", "aria-label": label });
        for (const [key, text] of options) {
            const one = button(text, () => this.set(key), { "data-value": key });
            this.buttons.set(key, one);
            this.root.append(one);
        }
        this.mark();
    }

    set(value: T): void {
        if (!this.buttons.has(value)) return;
        this.value = value;
        this.mark();
        this.changed(value);
    }

    private mark(): void {
        for (const [key, one] of this.buttons) {
            one.setAttribute("aria-pressed", String(key === this.value));
        }
    }
}

/** Runs at most once before the next picture is shown, however often it is asked. */
export function beforeNextFrame(work: () => void): () => void {
    let asked = false;
    return () => {
        if (asked) return;
        asked = true;
        requestAnimationFrame(() => {
            asked = false;
            work();
        });
    };
}

/** Runs once nothing has asked for it for a moment; the element says meanwhile that it is busy. */
export function afterPause(element: HTMLElement, work: () => void): () => void {
    const pauseMs = 100;
    let timer = 0;
    return () => {
        element.setAttribute("aria-busy", "true");
        clearTimeout(timer);
        timer = window.setTimeout(() => {
            work();
            element.removeAttribute("aria-busy");
        }, pauseMs);
    };
}

/** Text to the clipboard; false when the browser does not let us. */
export async function copyText(text: string): Promise<boolean> {
    try {
        await navigator.clipboard.writeText(text);
        return true;
    } catch {
        const area = el("textarea", { class: "unseen", "aria-hidden": "true" });
        area.value = text;
        document.body.append(area);
        area.select();
        const done = document.execCommand("copy");
        area.remove();
        return done;
    }
}
