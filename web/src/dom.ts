// SPDX-License-Identifier: Apache-2.0
// Creates elements. Text is only ever set as text: names come from untrusted programs.

export type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | undefined>;

/** el("p", {class: "x"}, "text", node). Attributes that are false or undefined are left out. */
export function el<K extends keyof HTMLElementTagNameMap>(
    tag: K,
    attributes: Attributes = {},
    ...children: Child[]
): HTMLElementTagNameMap[K] {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
        if (value === undefined || value === false) continue;
        element.setAttribute(name, value === true ? "" : String(value));
    }
    for (const child of children) if (child) element.append(child);
    return element;
}

export function button(
    text: string,
    action: () => void,
    attributes: Attributes = {},
): HTMLButtonElement {
    const element = el("button", { type: "button", ...attributes }, text);
    element.addEventListener("click", action);
    return element;
}

/** A name in any script and direction, isolated from the text around it. */
export function foreign(text: string, attributes: Attributes = {}): HTMLElement {
    return el("bdi", { dir: "auto", ...attributes }, text);
}

/** A group of buttons of which exactly one is pressed. */
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

/** Returns a function that runs `work` once before the next frame, however often it is called. */
export function beforeNextFrame(work: () => void): () => void {
    let isScheduled = false;
    return () => {
        if (isScheduled) return;
        isScheduled = true;
        requestAnimationFrame(() => {
            isScheduled = false;
            work();
        });
    };
}

/** Returns a function that runs `work` once it has not been called for a while. Until then the
 * element is marked as busy. */
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

/** Copies text to the clipboard; returns false if the browser does not allow it. */
export async function copyText(text: string): Promise<boolean> {
    try {
        await navigator.clipboard.writeText(text);
        return true;
    } catch {
        const area = el("textarea", { class: "offscreen", "aria-hidden": "true" });
        area.value = text;
        document.body.append(area);
        area.select();
        const isDone = document.execCommand("copy");
        area.remove();
        return isDone;
    }
}
